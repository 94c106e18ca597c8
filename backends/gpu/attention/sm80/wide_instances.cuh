// SPDX-License-Identifier: Apache-2.0
// What the files of wide instances make of the settings in attention/sm80/instances.cmake.
#pragma once

#include "attention/sm80/wide_instances.h"
#include "attention/sm80/wide_kernel.cuh"

namespace attile::gpu::sm80 {

template <class Element, class Config>
AttentionWideKernel attention_wide_instance(const char *name) {
    return {name, reinterpret_cast<const void *>(&attention_wide_forward<Element, Config>), &Config::kShape};
}

}  // namespace attile::gpu::sm80
