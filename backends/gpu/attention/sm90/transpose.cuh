// SPDX-License-Identifier: Apache-2.0
// A block has 128 keys and 64 columns of a head: they come as rows of keys to shared memory, and go as rows of columns, four keys a word.
// Bound: memory, each byte once there and once back.
#pragma once

#include "attention/block.h"
#include "attention/sm90/product_bytes.cuh"
#include "attention/sm90/transpose.h"
#include "early.h"

namespace attile::gpu::sm90 {

__global__ void ATTILE_LAUNCH_BOUNDS(kTransposeThreads, 1) attention_transpose_values(const __grid_constant__ TransposeArguments a) {
    constexpr int kPitch = kTransposedColumns + 4;
    __shared__ __align__(16) uint8_t tile[kTransposedKeys * kPitch];
    await_kernel_ahead();
    const AttentionParams &p = a.p;
    const int batch = static_cast<int>(quotient(blockIdx.z, a.heads)), head = static_cast<int>(remainder(blockIdx.z, a.heads)),
              first_key = static_cast<int>(blockIdx.x) * kTransposedKeys, first_column = static_cast<int>(blockIdx.y) * kTransposedColumns;
    const AttentionEntry entry(p, batch);
    const int rows = entry.len_q;
    const int from = KeyRange(p, 0, entry).low, to = KeyRange(p, max(rows, 1) - 1, entry).high;
    const uint8_t *const v = static_cast<const uint8_t *>(p.v.data) + batch * p.v.stride[0] + head * p.v.stride[1];
    constexpr int kChunks = kTransposedColumns / 16;
    for (int i = static_cast<int>(threadIdx.x); i < kTransposedKeys * kChunks; i += kTransposeThreads) {
        const int row = i / kChunks, column = i % kChunks * 16, key = first_key + row;
        uint4 x = {};
        if (key >= from && key < to && first_column + column < p.head_dim_v)
            x = *reinterpret_cast<const uint4 *>(v + key * p.v.stride[2] + first_column + column);
        uint32_t *const into = reinterpret_cast<uint32_t *>(tile + row * kPitch + column);
        into[0] = x.x;
        into[1] = x.y;
        into[2] = x.z;
        into[3] = x.w;
    }
    __syncthreads();
    const int word = static_cast<int>(threadIdx.x) % 32, place = word * 4,
              key = place / kOrderedKeys * kOrderedKeys + key_of_place(place % kOrderedKeys);
    for (int column = static_cast<int>(threadIdx.x) / 32 * 4; column < kTransposedColumns; column += kTransposeThreads / 32 * 4) {
        uint32_t x[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) x[i] = *reinterpret_cast<const uint32_t *>(tile + (key + i / 2 * 8 + i % 2) * kPitch + column);
        // Bytes by columns instead of by keys.
        const uint32_t low01 = __byte_perm(x[0], x[1], 0x5140), high01 = __byte_perm(x[0], x[1], 0x7362),
                       low23 = __byte_perm(x[2], x[3], 0x5140), high23 = __byte_perm(x[2], x[3], 0x7362);
        const uint32_t y[4] = {__byte_perm(low01, low23, 0x5410), __byte_perm(low01, low23, 0x7632), __byte_perm(high01, high23, 0x5410),
                               __byte_perm(high01, high23, 0x7632)};
        uint8_t *const row = a.to + (static_cast<int64_t>(blockIdx.z) * a.columns + first_column + column) * a.row + first_key + place;
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (first_column + column + i < a.columns) *reinterpret_cast<uint32_t *>(row + i * a.row) = y[i];
    }
}

}  // namespace attile::gpu::sm90
