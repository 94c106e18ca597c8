// SPDX-License-Identifier: Apache-2.0
// The shape of a tile of the sm_80 GEMM kernel. Which there are, with their budget: gemm/sm80/instances.cmake.
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
// A tile's kernels for operands contiguous along the depth (0) or along their other axis (1): of A, of B.
struct GemmKernels {
    const void *of_layouts[2][2];
};

}  // namespace attile::gpu::sm80
