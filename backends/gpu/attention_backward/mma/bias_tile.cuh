// SPDX-License-Identifier: Apache-2.0
// A tile of a bias's gradient: which one a block has, which of its elements a thread has, and how they are stored.
#pragma once

#include "attention/numbers.h"
#include "attention_backward/mma/bias.h"
#include "mma/ptx.cuh"

namespace attile::gpu::mma {

// Where a thread's element i of a tile is: [16 rows][8 keys][element of a product's result]. A warp has kBlocks of 16 rows.
template <int kBlocks>
struct BiasPlace {
    static constexpr int kRows = 16 * kBlocks, kOfRows = kBiasTile / kRows, kEights = kBiasOfThread / 4 / kBlocks;
    int row, key;
    __device__ __forceinline__ explicit BiasPlace(int i) {
        const int lane = static_cast<int>(threadIdx.x) % kWarpThreads, warp = static_cast<int>(threadIdx.x) / kWarpThreads;
        row = warp % kOfRows * kRows + lane / 4 + row_of(i);
        key = warp / kOfRows * (8 * kEights) + (lane & 3) * 2 + key_of(i);
    }
    // From element 0 to element i.
    static __device__ __forceinline__ constexpr int row_of(int i) { return i / 4 / kEights * 16 + (i & 2) * 4; }
    static __device__ __forceinline__ constexpr int key_of(int i) { return i / 4 % kEights * 8 + (i & 1); }
};

// Which tile a block has.
struct BiasTile {
    int batch, head, row, key;  // The entry and head of the bias; the first row and key.
    __device__ __forceinline__ BiasTile(const BackwardBiasTask &a, int tile) {
        const int of_rows = tile / a.key_tiles, of_heads = of_rows / a.row_tiles, heads = static_cast<int>(a.p.bias_extent[1]);
        key = (tile - of_rows * a.key_tiles) * kBiasTile;
        row = (of_rows - of_heads * a.row_tiles) * kBiasTile;
        batch = of_heads / heads;
        head = of_heads - batch * heads;
    }
};

// Where two neighbours along the keys lie in an operand of so many rows and keys, and how many of the two there are.
template <class Place>
struct BiasPair {
    int64_t at;
    int count;
    __device__ __forceinline__ BiasPair(const AttentionOperand &x, const BiasTile &tile, int i, int64_t rows, int64_t keys) {
        const Place place(i);
        const int64_t row = tile.row + place.row, key = tile.key + place.key;
        at = tile.batch * x.stride[0] + tile.head * x.stride[1] + row * x.stride[2] + key * x.stride[3];
        count = row < rows && key < keys ? key + 1 < keys ? 2 : 1 : 0;
    }
};
// Has the operand all of the tile, in pairs that lie side by side at a multiple of their size?
__device__ __forceinline__ bool has_whole_pairs(const AttentionOperand &x, const BiasTile &tile, int64_t rows, int64_t keys, int bytes) {
    return x.stride[3] == 1 && ((x.stride[0] | x.stride[1] | x.stride[2]) & 1) == 0 &&
           reinterpret_cast<uintptr_t>(x.data) % (2 * bytes) == 0 && tile.row + kBiasTile <= rows && tile.key + kBiasTile <= keys;
}

// kCount of a thread's elements, from element `first` on, to the caller's array.
template <class Place, int kCount, class Number>
__device__ __forceinline__ void store_bias_as(const BackwardBiasTask &a, const BiasTile &tile, int first, const float *sums) {
    const AttentionOperand &x = a.p.dbias;
    Number *const to = static_cast<Number *>(const_cast<void *>(x.data));
    const int64_t rows = a.p.bias_extent[2], keys = a.p.bias_extent[3];
    if (has_whole_pairs(x, tile, rows, keys, sizeof(Number))) {
#pragma unroll
        for (int i = 0; i < kCount; i += 2) {
            Number *const pair = to + BiasPair<Place>(x, tile, first + i, rows, keys).at;
            if constexpr (sizeof(Number) == 4)
                *reinterpret_cast<float2 *>(pair) = make_float2(sums[i], sums[i + 1]);
            else
                *reinterpret_cast<uint32_t *>(pair) = narrow_pair<Number>(sums[i], sums[i + 1]);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
        const BiasPair<Place> pair(x, tile, first + i, rows, keys);
        if (pair.count > 0) to[pair.at] = from_compute<Number>(sums[i]);
        if (pair.count > 1) to[pair.at + x.stride[3]] = from_compute<Number>(sums[i + 1]);
    }
}
template <class Place, int kCount>
__device__ __forceinline__ void store_bias(const BackwardBiasTask &a, const BiasTile &tile, int first, const float *sums) {
    switch (a.p.dbias.storage) {
        case AttentionStorage::kF32:
            return store_bias_as<Place, kCount, float>(a, tile, first, sums);
        case AttentionStorage::kF16:
            return store_bias_as<Place, kCount, F16>(a, tile, first, sums);
        default:
            return store_bias_as<Place, kCount, BF16>(a, tile, first, sums);
    }
}

}  // namespace attile::gpu::mma
