// SPDX-License-Identifier: Apache-2.0
// The instances of the Hopper attention kernel for float32 by split TF32 as the host sees them.
#pragma once

#include "attention/sm90/split_shapes.h"

namespace attile::gpu::sm90 {

struct AttentionSplitKernel {
    const char *name = nullptr;
    const void *kernel = nullptr;
    const AttentionSplitShape *shape = nullptr;
};

// Narrowest first: the first that holds a head is taken.
AttentionSplitKernel attention_f32_cols64();
AttentionSplitKernel attention_f32_cols128();

}  // namespace attile::gpu::sm90
