// SPDX-License-Identifier: Apache-2.0
// The addresses of one element type's kernels.
#pragma once

#include "gemm/sm90/kernel.cuh"

namespace attile::gpu::sm90 {

template <class Element, int kRows, int kColumns>
const void *gemm_kernel_of_layouts(int outer_a, int outer_b) {
    static const void *const kernels[2][2] = {
        {reinterpret_cast<const void *>(gemm_kernel<GemmConfig<Element, kRows, kColumns, 0, 0>>),
         reinterpret_cast<const void *>(gemm_kernel<GemmConfig<Element, kRows, kColumns, 0, 1>>)},
        {reinterpret_cast<const void *>(gemm_kernel<GemmConfig<Element, kRows, kColumns, 1, 0>>),
         reinterpret_cast<const void *>(gemm_kernel<GemmConfig<Element, kRows, kColumns, 1, 1>>)},
    };
    return kernels[outer_a][outer_b];
}

template <class Element>
const void *gemm_kernel_of(GemmTile tile, int outer_a, int outer_b) {
    switch (tile) {
        case kGemm128x256:
            return gemm_kernel_of_layouts<Element, 128, 256>(outer_a, outer_b);
        case kGemm128x128:
            return gemm_kernel_of_layouts<Element, 128, 128>(outer_a, outer_b);
        case kGemm128x64:
            return gemm_kernel_of_layouts<Element, 128, 64>(outer_a, outer_b);
        case kGemm64x64:
            return gemm_kernel_of_layouts<Element, 64, 64>(outer_a, outer_b);
        case kGemm64x32:
            return gemm_kernel_of_layouts<Element, 64, 32>(outer_a, outer_b);
        default:
            return gemm_kernel_of_layouts<Element, 64, 16>(outer_a, outer_b);
    }
}

}  // namespace attile::gpu::sm90
