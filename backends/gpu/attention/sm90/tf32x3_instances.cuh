// SPDX-License-Identifier: Apache-2.0
// What the files of instances for float32 make of the settings in attention/sm90/instances.cmake.
#pragma once

#include <type_traits>

#include "attention/sm90/tf32x3_instances.h"
#include "attention/sm90/tf32x3_kernel.cuh"

namespace attile::gpu::sm90 {

template <class Element, class Config>
AttentionTf32x3Kernel attention_tf32x3_instance(const char *name) {
    static_assert(std::is_same<Element, float>::value, "of float32 alone");
    return {name, reinterpret_cast<const void *>(&attention_tf32x3_forward<Config>), &Config::kShape};
}

}  // namespace attile::gpu::sm90
