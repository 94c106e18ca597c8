// SPDX-License-Identifier: Apache-2.0
// What the files of instances make of the settings in attention_backward/sm90/instances.cmake.
#pragma once

#include "attention_backward/sm90/instances.h"
#include "attention_backward/sm90/kernel.cuh"
#include "attention_backward/sm90/wide.cuh"

namespace attile::gpu::sm90 {

template <class Element, class Config>
BackwardKernels backward_instance(const char *name) {
    return {name, reinterpret_cast<const void *>(&attention_backward<Element, Config>),
            reinterpret_cast<const void *>(&attention_backward_finish<Element, Config>), &Config::kShape};
}
template <class Element, class Config>
BackwardKernels backward_wide_instance(const char *name) {
    return {name, reinterpret_cast<const void *>(&attention_backward_wide<Element, Config>), nullptr, &Config::kShape};
}

}  // namespace attile::gpu::sm90
