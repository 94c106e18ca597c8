// SPDX-License-Identifier: Apache-2.0
// The GEMM kernels there are for a data type of A and B, as addresses to launch. Null where none was compiled.
#pragma once

#include "gemm/simt/configs.h"

#include <cstdint>

namespace attile::gpu::simt {

struct GemmTileKernels {
    const void *direct[2][2];              // Aligned panels, the plain epilogue: [A contiguous along depth][B contiguous along depth].
    const void *aligned;                   // Aligned panels, any epilogue.
    const void *unaligned;                 // Panels with unit strides.
    const void *strided;                   // Panels with any strides.
    const void *unaligned_rows = nullptr;  // As unaligned, A contiguous along depth and B along columns, where the plan allows it.
};

struct GemmSkinnyKernels {
    int32_t rows;            // At most; 0 ends the list. Up to kGemmSkinnyRegisterRows A must be contiguous along depth.
    const void *vectors[2];  // B read in vectors: [B contiguous along depth]
    const void *scalars[2];  // B read one by one; null: a kernel of more rows has to do.
    const void *once[2];     // As `vectors`, for a B larger than the L2 cache; null: as it is for any.
};

inline constexpr int kGemmSkinnies = 4;
inline constexpr int kGemmSkinnyRegisterRows = 4;
inline constexpr int kGemmSkinnyThreads = 512;
inline constexpr int kGemmSkinnyColumns = 32;
inline constexpr int kGemmSkinnyStep = 256;
inline constexpr int kGemmCombineThreads = 256;
inline constexpr int kGemmCombineWays = 8;
inline constexpr int kGemmCombinePlainOutputs = 4;  // Of a thread.

struct GemmKernels {
    GemmTileKernels tiles[kGemmTiles];        // By GemmTileId.
    GemmSkinnyKernels skinny[kGemmSkinnies];  // By ascending rows.
};

const GemmKernels &gemm_kernels_f32();
const GemmKernels &gemm_kernels_f64();
const GemmKernels &gemm_kernels_f16();
const GemmKernels &gemm_kernels_bf16();
const void *gemm_combine_f32();
const void *gemm_combine_plain_f32(bool vectors);
const void *gemm_combine_f64();

}  // namespace attile::gpu::simt
