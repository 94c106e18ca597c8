// SPDX-License-Identifier: Apache-2.0
// A block has 128 keys and 128 columns of a head: they come as rows of keys to shared memory, whose chunks of 16 bytes are swizzled by
// groups of 16 keys, and go as rows of columns. A thread writes 16 keys of each of four columns. Bound: memory, each byte once there and
// once back.
#pragma once

#include "attention/block.h"
#include "attention/sm90/product_bytes.cuh"
#include "attention/sm90/transpose.h"
#include "early.h"
#include "eight_bits.h"

namespace attile::gpu::sm90 {

__global__ void ATTILE_LAUNCH_BOUNDS(kTransposeThreads, 1) attention_transpose_values(const __grid_constant__ TransposeArguments a) {
    constexpr int kChunk = 16, kChunks = kTransposedColumns / kChunk, kGroups = kTransposedKeys / kChunk;
    static_assert(kTransposeThreads == kGroups * kTransposedColumns / 4, "a thread for 16 keys of four columns");
    __shared__ __align__(16) uint8_t tile[kTransposedKeys * kTransposedColumns];
    await_kernel_ahead();
    const AttentionParams &p = a.p;
    const int batch = static_cast<int>(quotient(blockIdx.z, a.heads)), head = static_cast<int>(remainder(blockIdx.z, a.heads)),
              first_key = static_cast<int>(blockIdx.x) * kTransposedKeys, first_column = static_cast<int>(blockIdx.y) * kTransposedColumns;
    const AttentionEntry entry(p, batch);
    const int from = KeyRange(p, 0, entry).low, to = KeyRange(p, max(entry.len_q, 1) - 1, entry).high;
    const uint8_t *const v = static_cast<const uint8_t *>(p.v.data) + batch * p.v.stride[0] + head * p.v.stride[1];
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int i = thread; i < kTransposedKeys * kChunks; i += kTransposeThreads) {
        const int row = i / kChunks, chunk = i % kChunks, key = first_key + row, column = first_column + chunk * kChunk;
        uint4 x = {};
        if (key >= from && key < to && column < p.head_dim_v) x = *reinterpret_cast<const uint4 *>(v + key * p.v.stride[2] + column);
        *reinterpret_cast<uint4 *>(tile + row * kTransposedColumns + ((chunk ^ row / kChunk) * kChunk)) = x;
    }
    __syncthreads();
    const int group = thread % kGroups, column = thread / kGroups * 4;
    const uint8_t *const at = tile + group * kChunk * kTransposedColumns + ((column / kChunk ^ group) * kChunk) + column % kChunk;
    uint32_t y[4][4];  // Of a column, four keys a word.
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        uint32_t x[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) x[e] = *reinterpret_cast<const uint32_t *>(at + key_of_place(4 * i + e) * kTransposedColumns);
        uint32_t columns[4];
        transpose_bytes(x, columns);
#pragma unroll
        for (int e = 0; e < 4; ++e) y[e][i] = columns[e];
    }
    uint8_t *const row = a.to + (static_cast<int64_t>(blockIdx.z) * a.columns + first_column + column) * a.row + first_key + group * kChunk;
#pragma unroll
    for (int i = 0; i < 4; ++i)
        if (first_column + column + i < a.columns)
            *reinterpret_cast<uint4 *>(row + i * a.row) = make_uint4(y[i][0], y[i][1], y[i][2], y[i][3]);
}

}  // namespace attile::gpu::sm90
