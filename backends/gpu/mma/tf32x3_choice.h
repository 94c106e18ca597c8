// SPDX-License-Identifier: Apache-2.0
// Which calls may multiply float32 by tf32x3 (mma/tf32x3.cuh).
#pragma once

#include <cstdint>

#include <attile/attile.h>

namespace attile::gpu::mma {

// Why float32 is not multiplied by tf32x3; null: it is. Three products of TF32 are slower than one of float32 but on the devices whose
// tensor cores are the widest.
inline const char *why_no_tf32x3(int32_t capability, uint32_t flags) {
    if ((flags & ATTILE_FLAG_ALLOW_SPLIT_TF32) == 0) return "ATTILE_FLAG_ALLOW_SPLIT_TF32 is not set";
    if (capability != 80 && capability != 90) return "split TF32 is for capabilities 8.0 and 9.0, where it is faster";
    return nullptr;
}

}  // namespace attile::gpu::mma
