// SPDX-License-Identifier: Apache-2.0
// C of a tile, asked for into the L2 cache when the tile begins: all blocks end a tile at about the same time, and would wait for memory
// together. The consumers ask, a line of 128 bytes a thread; the producer's one thread took longer for it than a short depth takes.
#pragma once

#include "gemm/sm90/arguments.h"
#include "sm90/ptx.cuh"

namespace attile::gpu::sm90 {

// row and col: the first of D that the tile has; it has kRows rows and kColumns columns at most. All consumer threads call it.
template <class Config, int kRows, int kColumns>
__device__ __forceinline__ void gemm_ask_c(const GemmArguments &p, uint32_t batch_x, uint32_t batch_y, int64_t row, int64_t col) {
    constexpr int kLine = 128;
    if (Config::kRowGroups || (p.fused & kFusedC) == 0) return;
    const int bytes = gemm_storage_bytes(p.c.dtype), rows = static_cast<int>(min(p.m - row, int64_t{kRows})),
              of_row = static_cast<int>(min(p.n - col, int64_t{kColumns})) * bytes;
    if (rows <= 0 || of_row <= 0) return;  // The second of two blocks may lie beyond the last row or column.
    const char *const first =
        static_cast<const char *>(p.c.data) + (batch_x * p.c.batch_x + batch_y * p.c.batch_y + row * p.c.row + col) * bytes;
    const uint32_t lines = static_cast<uint32_t>((of_row + kLine - 1) / kLine + 1);  // Rows may begin within a line.
#pragma unroll 1
    for (uint32_t i = fresh_thread() - kWarpgroupThreads; i < static_cast<uint32_t>(rows) * lines; i += Config::kRows * 2) {
        const uint32_t r = i / lines;
        const char *const from = first + r * p.c.row * bytes;
        const int to = static_cast<int>(i - r * lines) * kLine - static_cast<int>(reinterpret_cast<uintptr_t>(from) % kLine);
        if (to < of_row) prefetch_line(from + max(to, 0));
    }
}

}  // namespace attile::gpu::sm90
