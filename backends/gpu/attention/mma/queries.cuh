// SPDX-License-Identifier: Apache-2.0
// Loads a block's rows of Q into shared memory. What lies outside becomes zeros.
#pragma once

#include "attention/mma/work_tile.cuh"
#include "mma/shared_rows.cuh"

namespace attile::gpu::mma {

// Rows of a packed head are (query row, head of the pack), the heads innermost.
template <class Config>
__device__ __forceinline__ void load_queries(const AttentionParams &p, const AttentionWorkTile &work, uint32_t to) {
    constexpr int kBytes = Config::kShape.bytes, kUnits = kBytes / 2;
    using Rows = SharedRows<Config::kShape.depth * kUnits>;
    constexpr int kAtOnce = Config::kShape.threads() / Rows::kChunks;
    const int chunk = static_cast<int>(threadIdx.x) % Rows::kChunks, first = static_cast<int>(threadIdx.x) / Rows::kChunks;
    if (Config::kShape.threads() % Rows::kChunks != 0 && first >= kAtOnce) return;
    const int bytes = chunk_bytes(p.head_dim * kUnits, chunk);
    const char *const from =
        static_cast<const char *>(p.q.data) + (work.batch * p.q.stride[0] + work.first_q * p.q.stride[2]) * kBytes + 16 * chunk;
#pragma unroll 4
    for (int i = first; i < Config::kShape.rows(); i += kAtOnce) {
        const int packed = min(work.first_row + i, work.rows - 1);
        const int64_t at = query_head(p, work.head, packed) * p.q.stride[1] + query_row(p, packed) * p.q.stride[2];
        copy_async(to + Rows::at(i, chunk), from + at * kBytes, work.first_row + i < work.rows ? bytes : 0);
    }
}

}  // namespace attile::gpu::mma
