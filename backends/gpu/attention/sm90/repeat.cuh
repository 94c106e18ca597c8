// SPDX-License-Identifier: Apache-2.0
// Makes a warp's scores again: 16 rows by a tile of keys, from Q and K in shared memory, by mma.sync. It is for the rare step without
// maxima whose scores outgrew the range: they have been overwritten by then. Unlike wgmma, mma.sync needs one warp only. The sums are the
// same up to the order of summation.
#pragma once

#include "attention/sm90/arguments.h"
#include "attention/sm90/product_bytes.cuh"
#include "sm90/ptx.cuh"

namespace attile::gpu::sm90 {

// `queries`: the warp's first row; `keys`: the tile's first. Both lie in panels of 128-byte rows, swizzled.
template <class Element, class Config>
__device__ __forceinline__ void repeat_scores(float (&s)[Config::kShape.keys / 2], uint32_t queries, uint32_t keys) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
#pragma unroll
    for (int i = 0; i < Config::kShape.keys / 2; ++i) s[i] = 0;
    const uint32_t query_row = queries + (lane & 15) * 128, key_row = keys + ((lane & 7) + (lane >> 4) * 8) * 128;
#pragma unroll 1
    for (int i = 0; i < Config::kShape.depth / 16; ++i) {
        const int panel = i / 4, chunk = i % 4 * 2;
        uint32_t x[4], y[4];
        load_matrices(x, query_row + panel * Config::kShape.rows() * 128 + (((chunk + (lane >> 4)) ^ (lane & 7)) << 4));
#pragma unroll
        for (int j = 0; j < Config::kShape.keys / 16; ++j) {
            load_matrices(y, key_row + panel * Config::kShape.keys * 128 + j * 2048 + (((chunk + ((lane >> 3) & 1)) ^ (lane & 7)) << 4));
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                if constexpr (Config::kShape.bytes)
                    multiply_bytes(s + 8 * j + 4 * h, x, y[2 * h], y[2 * h + 1]);
                else
                    multiply<Element>(s + 8 * j + 4 * h, x, y[2 * h], y[2 * h + 1]);
            }
        }
    }
}

}  // namespace attile::gpu::sm90
