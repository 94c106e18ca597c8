// SPDX-License-Identifier: Apache-2.0
// What the files of instances make of the settings in attention/sm80/instances.cmake.
#pragma once

#include "attention/sm80/instances.h"
#include "attention/sm80/kernel.cuh"
#include "attention/sm80/tf32x3_instances.h"

namespace attile::gpu::sm80 {

template <class Element, class Config>
AttentionKernel attention_instance(const char *name) {
    return {name, reinterpret_cast<const void *>(&attention_forward<Element, Config>), &Config::kShape};
}

}  // namespace attile::gpu::sm80
