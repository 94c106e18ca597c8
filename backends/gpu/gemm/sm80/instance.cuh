// SPDX-License-Identifier: Apache-2.0
// The kernels of a tile, from its entry in gemm/sm80/instances.cmake.
#pragma once

#include "gemm/sm80/kernel.cuh"

namespace attile::gpu::sm80 {

template <class Element, class Config, bool kOuterA, bool kOuterB>
const void *gemm_kernel_of() {
    constexpr GemmTileShape kShape = Config::kShape;
    return reinterpret_cast<const void *>(gemm_kernel<GemmConfig<Element, kShape.rows, kShape.columns, kShape.stages, kOuterA, kOuterB>>);
}

template <class Element, class Config>
GemmKernels gemm_instance() {
    return {{{gemm_kernel_of<Element, Config, false, false>(), gemm_kernel_of<Element, Config, false, true>()},
             {gemm_kernel_of<Element, Config, true, false>(), gemm_kernel_of<Element, Config, true, true>()}}};
}

}  // namespace attile::gpu::sm80
