// SPDX-License-Identifier: Apache-2.0
// What the files of instances make of the settings in attention_backward/sm80/instances.cmake.
#pragma once

#include <type_traits>

#include "attention_backward/sm80/instances.h"
#include "attention_backward/sm80/kernel.cuh"

namespace attile::gpu::sm80 {

// Void: there is no such kernel.
template <class Element, class Config>
BackwardKernel backward_kernel_of() {
    if constexpr (std::is_void<Config>::value) {
        return {};
    } else {
        static_assert(kBackwardAllottedRows % Config::kShape.rows() == 0 && kBackwardAllottedRows % Config::kShape.tile() == 0,
                      "rows are allotted for every tile");
        return {reinterpret_cast<const void *>(&attention_backward<Element, Config>), &Config::kShape};
    }
}

template <class Element, class Config>
BackwardKernels backward_instance(const char *name) {
    const BackwardKernel small_modified = backward_kernel_of<Element, typename Config::SmallModifiedKeys>(),
                         rows = backward_kernel_of<Element, typename Config::ByElementRows>();
    return {name,
            {backward_kernel_of<Element, typename Config::Keys>(), backward_kernel_of<Element, typename Config::SmallKeys>(),
             backward_kernel_of<Element, typename Config::Rows>()},
            {backward_kernel_of<Element, typename Config::BiasKeys>(), small_modified, rows},
            {backward_kernel_of<Element, typename Config::AllowedKeys>(), small_modified, rows},
            {backward_kernel_of<Element, typename Config::AlibiKeys>(), small_modified, rows},
            {backward_kernel_of<Element, typename Config::SoftcapKeys>(), small_modified, rows},
            {backward_kernel_of<Element, typename Config::ModifiedKeys>(), small_modified, rows},
            {backward_kernel_of<Element, typename Config::ByElementKeys>(), {}, rows}};
}

}  // namespace attile::gpu::sm80
