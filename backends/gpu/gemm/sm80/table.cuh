// SPDX-License-Identifier: Apache-2.0
// The addresses of one element type's kernels.
#pragma once

#include "gemm/sm80/kernel.cuh"

namespace attile::gpu::sm80 {

template <class Element, GemmTile kTile>
const void *gemm_kernel_of_layouts(int outer_a, int outer_b) {
    constexpr GemmTileShape kShape = kGemmTileShapes[kTile];
    static const void *const kernels[2][2] = {
        {reinterpret_cast<const void *>(gemm_kernel<GemmConfig<Element, kShape.rows, kShape.columns, kShape.stages, false, false>>),
         reinterpret_cast<const void *>(gemm_kernel<GemmConfig<Element, kShape.rows, kShape.columns, kShape.stages, false, true>>)},
        {reinterpret_cast<const void *>(gemm_kernel<GemmConfig<Element, kShape.rows, kShape.columns, kShape.stages, true, false>>),
         reinterpret_cast<const void *>(gemm_kernel<GemmConfig<Element, kShape.rows, kShape.columns, kShape.stages, true, true>>)},
    };
    return kernels[outer_a][outer_b];
}

template <class Element>
const void *gemm_kernel_of(GemmTile tile, int outer_a, int outer_b) {
    return tile == kGemm128x128 ? gemm_kernel_of_layouts<Element, kGemm128x128>(outer_a, outer_b)
                                : gemm_kernel_of_layouts<Element, kGemm64x64>(outer_a, outer_b);
}

}  // namespace attile::gpu::sm80
