// SPDX-License-Identifier: Apache-2.0
// Which rows of a block's tile a warp has, and which keys they see.
#pragma once

#include "attention/mma/work_tile.cuh"
#include "mma/ptx.cuh"

namespace attile::gpu::sm80 {

using namespace mma;

// A warp's place in the block's tile of rows.
template <class Config>
struct WarpRows {
    static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kWarpThreads; }
    static __device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / kWarpThreads; }
    static __device__ __forceinline__ int first() { return warp() / Config::kShape.column_groups() * Config::kShape.warp_rows(); }
    // The thread has this row and the one eight below, in a tile that begins with first_row.
    static __device__ __forceinline__ int row(int first_row, int row_tile) { return first_row + first() + 16 * row_tile + lane() / 4; }
    // Keys that the mask shows to a row.
    static __device__ __forceinline__ KeyRange seen(const AttentionParams &p, const AttentionWorkTile &work, int row) {
        return KeyRange(p, query_row(p, min(row, work.rows - 1)), work.shift, work.first_key, work.len_k);
    }
};

}  // namespace attile::gpu::sm80
