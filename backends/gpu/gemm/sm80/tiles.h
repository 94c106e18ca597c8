// SPDX-License-Identifier: Apache-2.0
// The tiles that the sm_80 GEMM kernel exists in. Four warps a block, a quarter of the tile each, in 2 x 2; of float32 eight, in 4 x 2.
//
//   tile      shared memory: stages (rows + columns) 64 bytes   registers (CUDA 13.0)   blocks a multiprocessor, by registers
//   128x128   4 (128 + 128) 64 = 64 KB                          251 to 255              2
//   64x64     4 (64 + 64) 64   = 32 KB                          up to 142               3
//   float32: the same bytes, half the depth                     128; up to 126          2
//
// Bound: the tensor cores by mma.sync. 128x128 does 64 FLOP a byte of L2, 64x64 32; of float32 half of that.
// Record: docs/kernels/gemm-sm80.md.
#pragma once

#include <cstddef>

namespace attile::gpu::sm80 {

inline constexpr int kGemmStageBytes = 64;                                                         // Of a stage's depth.
constexpr int gemm_depth(std::size_t bytes) { return kGemmStageBytes / static_cast<int>(bytes); }  // Of elements of so many bytes.
// float32 is split by the threads that multiply it: twice as many warps, of half the rows, keep the tensor cores busy meanwhile.
constexpr int gemm_threads(std::size_t bytes) { return bytes == 4 ? 256 : 128; }

struct GemmTileShape {
    int rows, columns, stages;
    constexpr int shared_bytes() const { return stages * (rows + columns) * kGemmStageBytes; }
};
enum GemmTile : int { kGemm128x128, kGemm64x64, kGemmTiles };
inline constexpr GemmTileShape kGemmTileShapes[kGemmTiles] = {{128, 128, 4}, {64, 64, 4}};

// The kernel of a tile for operands contiguous along the depth (0) or along their other axis (1).
const void *gemm_kernel_f16(GemmTile tile, int outer_a, int outer_b);
const void *gemm_kernel_bf16(GemmTile tile, int outer_a, int outer_b);
const void *gemm_kernel_f32(GemmTile tile, int outer_a, int outer_b);

}  // namespace attile::gpu::sm80
