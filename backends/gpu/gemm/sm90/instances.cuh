// SPDX-License-Identifier: Apache-2.0
// What the files of instances make of the settings in gemm/sm90/instances.cmake.
#pragma once

#include "gemm/sm90/instances.h"
#include "gemm/sm90/kernel.cuh"

namespace attile::gpu::sm90 {

template <class Element, class Config, int kOuterA, int kOuterB>
const void *gemm_kernel_of() {
    constexpr GemmTileShape kShape = Config::kShape;
    return reinterpret_cast<const void *>(gemm_kernel<GemmConfig<Element, kShape.rows, kShape.columns, kOuterA, kOuterB>>);
}

template <class Element, class Config>
GemmKernels gemm_instance() {
    return {{{gemm_kernel_of<Element, Config, 0, 0>(), gemm_kernel_of<Element, Config, 0, 1>()},
             {gemm_kernel_of<Element, Config, 1, 0>(), gemm_kernel_of<Element, Config, 1, 1>()}}};
}

}  // namespace attile::gpu::sm90
