// SPDX-License-Identifier: Apache-2.0
// Tiles of 16-bit elements in shared memory, loaded by cp.async, 16 bytes a thread and copy. A row of shared memory is a row of the
// operand. Its 16-byte chunks are swizzled by the row's number, so that the same chunk of eight rows, of which a fragment is made, lies in
// different banks. A float32 counts as two elements.
#pragma once

#include "mma/ptx.cuh"

namespace attile::gpu::mma {

// Rows of kColumns elements in shared memory, the first at a multiple of 128 bytes. kForWords: swizzled so that 32-bit words of four rows,
// eight of each, lie in different banks instead.
template <int kColumns, bool kForWords = false>
struct SharedRows {
    static_assert(kColumns % 64 == 0 || kColumns == 32, "whole groups of eight chunks, or half of one");
    static constexpr int kBytes = kColumns * 2, kChunks = kColumns / 8;
    static __device__ __forceinline__ uint32_t at(int row, int chunk) {
        const int exchange = kForWords ? (row & 3) << 1 : kColumns == 32 ? row >> 1 & 3 : row & 7;
        return static_cast<uint32_t>(row * kBytes + ((chunk ^ exchange) << 4));
    }
    // From chunk 0 or 1 of a row to the one `chunks` further on, an even constant.
    static __device__ __forceinline__ uint32_t step(uint32_t from, int chunks) {
        return (from ^ static_cast<uint32_t>((chunks & 7) << 4)) + static_cast<uint32_t>((chunks >> 3) << 7);
    }
};

// Bytes of a chunk that the operand has, of which `columns` are left from the row's start on.
__device__ __forceinline__ int chunk_bytes(int columns, int chunk) { return min(max((columns - 8 * chunk) * 2, 0), 16); }

// kRows rows from `from` on, each `stride` bytes after the one before; of them those within [first, end) are read, and `columns` elements
// of each. The rest becomes zeros. kHasShortcut: a branch for the case that nothing is left out; without it there is
// no branch, so that the compiler can interleave the copies with other code.
template <int kColumns, int kRows, int kThreads, bool kHasShortcut, class Rows = SharedRows<kColumns>>
__device__ __forceinline__ void load_rows(uint32_t to, const char *from, int64_t stride, int columns, int first, int end) {
    constexpr int kAtOnce = kThreads / Rows::kChunks;
    static_assert(kThreads % Rows::kChunks == 0 && kRows % kAtOnce == 0, "whole rounds");
    const int chunk = static_cast<int>(threadIdx.x) % Rows::kChunks, row = static_cast<int>(threadIdx.x) / Rows::kChunks;
    const char *source = from + row * stride + 16 * chunk;
    if (kHasShortcut && first <= 0 && end >= kRows && columns >= kColumns) {
#pragma unroll
        for (int i = 0; i < kRows; i += kAtOnce) {
            copy_async(to + Rows::at(row + i, chunk), source);
            source += kAtOnce * stride;
        }
        return;
    }
    const int bytes = chunk_bytes(columns, chunk);
#pragma unroll
    for (int i = 0; i < kRows; i += kAtOnce) {
        copy_async(to + Rows::at(row + i, chunk), source, row + i >= first && row + i < end ? bytes : 0);
        source += kAtOnce * stride;
    }
}

// Fragments of 16 rows of A (columns of B) by 16 of depth, as multiply() takes them: of B two for the first eight columns, two for the
// others. Rows of shared memory lie along the depth, kChunk elements in 16 bytes, or (kOuterFirst) along the other axis.
template <class Rows, bool kOuterFirst, int kChunk = 8>
__device__ __forceinline__ void load_operand_a(uint32_t (&to)[4], uint32_t from, int outer, int depth) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
    if constexpr (kOuterFirst)
        load_matrices_turned(to, from + Rows::at(depth + (lane & 7) + (lane >> 4) * 8, outer / 8 + (lane >> 3 & 1)));
    else
        load_matrices(to, from + Rows::at(outer + (lane & 15), depth / kChunk + (lane >> 4)));
}
template <class Rows, bool kOuterFirst, int kChunk = 8>
__device__ __forceinline__ void load_operand_b(uint32_t (&to)[4], uint32_t from, int outer, int depth) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
    if constexpr (kOuterFirst)
        load_matrices_turned(to, from + Rows::at(depth + (lane & 15), outer / 8 + (lane >> 4)));
    else
        load_matrices(to, from + Rows::at(outer + (lane & 7) + (lane >> 4) * 8, depth / kChunk + (lane >> 3 & 1)));
}

}  // namespace attile::gpu::mma
