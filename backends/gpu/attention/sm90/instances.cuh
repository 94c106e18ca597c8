// SPDX-License-Identifier: Apache-2.0
// What the files of instances make of the settings in attention/sm90/instances.cmake.
#pragma once

#include "attention/sm90/instances.h"
#include "attention/sm90/kernel.cuh"

namespace attile::gpu::sm90 {

template <class Element, class Config>
AttentionKernel attention_instance(const char *name) {
    return {name, reinterpret_cast<const void *>(&attention_forward<Element, Config>), &Config::kShape};
}

}  // namespace attile::gpu::sm90
