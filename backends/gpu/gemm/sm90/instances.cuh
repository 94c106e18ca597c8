// SPDX-License-Identifier: Apache-2.0
// What the files of instances make of the settings in gemm/sm90/instances.cmake.
#pragma once

#include "gemm/sm90/fp8_groups_instances.h"
#include "gemm/sm90/fp8_instances.h"
#include "gemm/sm90/instances.h"
#include "gemm/sm90/int8_instances.h"
#include "gemm/sm90/kernel.cuh"
#include "gemm/sm90/residues_instances.h"
#include "gemm/sm90/row_groups_instances.h"

namespace attile::gpu::sm90 {

template <class Element, class Config, int kOuterA, int kOuterB, GemmEnd kEnd, class Source = Element>
const void *gemm_kernel_of() {
    constexpr GemmTileShape kShape = Config::kShape;
    return reinterpret_cast<const void *>(gemm_kernel<GemmConfig<Element, kShape.rows, kShape.columns, kOuterA, kOuterB, kEnd, Source>>);
}

template <class Element, class Config, GemmEnd kEnd = GemmEnd::kPlain>
GemmKernels gemm_instance() {
    return {{{gemm_kernel_of<Element, Config, 0, 0, kEnd>(), gemm_kernel_of<Element, Config, 0, 1, kEnd>()},
             {gemm_kernel_of<Element, Config, 1, 0, kEnd>(), gemm_kernel_of<Element, Config, 1, 1, kEnd>()}}};
}
template <class Element, class Config>
GemmKernels gemm_fused_instance() {
    return gemm_instance<Element, Config, GemmEnd::kFused>();
}
template <class Element, class Config>
GemmKernels gemm_general_instance() {
    return gemm_instance<Element, Config, GemmEnd::kGeneral>();
}

// A and B of int8, contiguous along the depth.
template <class Element, class Config>
GemmKernels gemm_int8_instance() {
    return {{{gemm_kernel_of<Element, Config, 0, 0, GemmEnd::kFused, I8>(), nullptr}, {nullptr, nullptr}}};
}

// The same with sums modulo a number.
template <class Element, class Config>
GemmKernels gemm_residues_instance() {
    return {{{gemm_kernel_of<Element, Config, 0, 0, GemmEnd::kFused, GemmResidues>(), nullptr}, {nullptr, nullptr}}};
}

// Likewise of e4m3.
template <class Element, class Config>
GemmKernels gemm_fp8_instance() {
    return {{{gemm_kernel_of<Element, Config, 0, 0, GemmEnd::kFused, E4M3>(), nullptr}, {nullptr, nullptr}}};
}

// For scales of all of a tile's columns together (0), and of each (1).
template <class Element, class Config>
GemmKernels gemm_fp8_groups_instance() {
    return {{{gemm_kernel_of<Element, Config, 0, 0, GemmEnd::kFused, GemmGrouped<E4M3, false>>(),
              gemm_kernel_of<Element, Config, 0, 0, GemmEnd::kFused, GemmGrouped<E4M3, true>>()},
             {nullptr, nullptr}}};
}

// Of groups of rows, whose rows are contiguous along the depth.
template <class Element, class Config, GemmEnd kEnd = GemmEnd::kTurned>
GemmKernels gemm_row_groups_instance() {
    return {{{gemm_kernel_of<Element, Config, 0, 0, kEnd, GemmRowGroups<Element>>(), nullptr},
             {gemm_kernel_of<Element, Config, 1, 0, kEnd, GemmRowGroups<Element>>(), nullptr}}};
}
template <class Element, class Config>
GemmKernels gemm_row_groups_fused_instance() {
    return gemm_row_groups_instance<Element, Config, GemmEnd::kTurnedFused>();
}

// B is contiguous along the depth.
template <class Element, class Config, GemmEnd kEnd = GemmEnd::kTurned>
GemmKernels gemm_turned_instance() {
    return {{{gemm_kernel_of<Element, Config, 0, 0, kEnd>(), nullptr}, {gemm_kernel_of<Element, Config, 1, 0, kEnd>(), nullptr}}};
}
template <class Element, class Config>
GemmKernels gemm_turned_fused_instance() {
    return gemm_turned_instance<Element, Config, GemmEnd::kTurnedFused>();
}

}  // namespace attile::gpu::sm90
