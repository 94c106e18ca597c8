// SPDX-License-Identifier: Apache-2.0
// The instances of the Hopper attention kernel for float32 by tf32x3 as the host sees them.
#pragma once

#include "attention/sm90/tf32x3_shapes.h"

namespace attile::gpu::sm90 {

struct AttentionTf32x3Kernel {
    const char *name = nullptr;
    const void *kernel = nullptr;
    const AttentionTf32x3Shape *shape = nullptr;
};

// Narrowest first: the first that holds a head is taken.
AttentionTf32x3Kernel attention_f32_cols64();
AttentionTf32x3Kernel attention_f32_cols128();

}  // namespace attile::gpu::sm90
