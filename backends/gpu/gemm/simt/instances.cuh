// SPDX-License-Identifier: Apache-2.0
// Short names for kernel instances in the tables of gemm_<type>.cu. A kernel is compiled only where a measured case or a feature needs it:
// the four layouts have kernels of their own at f32's large tiles, elsewhere one kernel decides at run time how to store a panel.
#pragma once

#include "gemm/simt/skinny.cuh"
#include "gemm/simt/tile.cuh"

namespace attile::gpu::simt {

template <class Config, class Element, GemmAccess kA, GemmAccess kB, bool kDirect = false>
const void *gemm_tile() {
    return reinterpret_cast<const void *>(&gemm_tile_kernel<Config, Element, kA, kB, kDirect>);
}

// Every epilogue; either layout, with vectors or without.
template <class Config, class Element, GemmAccess kAccess>
const void *gemm_tile() {
    return gemm_tile<Config, Element, kAccess, kAccess>();
}

// Layouts of B that have kernels without vectors.
enum class Scalars { kNone, kAlongDepth, kBoth };

template <class Element, int kRows, Scalars kScalars, bool kOnce = false>
GemmSkinnyKernels gemm_skinny() {
    GemmSkinnyKernels kernels = {kRows,
                                 {reinterpret_cast<const void *>(&gemm_skinny_kernel<Element, kRows, false, true>),
                                  reinterpret_cast<const void *>(&gemm_skinny_kernel<Element, kRows, true, true>)},
                                 {},
                                 {}};
    if constexpr (kScalars == Scalars::kBoth)
        kernels.scalars[0] = reinterpret_cast<const void *>(&gemm_skinny_kernel<Element, kRows, false, false>);
    if constexpr (kScalars != Scalars::kNone)
        kernels.scalars[1] = reinterpret_cast<const void *>(&gemm_skinny_kernel<Element, kRows, true, false>);
    if constexpr (kOnce) {
        kernels.once[0] = reinterpret_cast<const void *>(&gemm_skinny_kernel<Element, kRows, false, true, true>);
        kernels.once[1] = reinterpret_cast<const void *>(&gemm_skinny_kernel<Element, kRows, true, true, true>);
    }
    return kernels;
}

}  // namespace attile::gpu::simt
