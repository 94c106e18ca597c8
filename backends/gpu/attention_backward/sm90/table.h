// SPDX-License-Identifier: Apache-2.0
// The instances of the Hopper kernels of attention's gradients as the host sees them.
#pragma once

#include "attention_backward/sm90/shapes.h"

namespace attile::gpu::sm90 {

struct BackwardKernels {
    const char *name = nullptr;
    const void *kernel = nullptr;
    const void *finish = nullptr;  // Null: gradients of scores are left for backward_sum().
    const BackwardShape *shape = nullptr;
};

// Narrowest first: the first of a type that holds a head is taken.
BackwardKernels attention_backward_bf16_cols64();
BackwardKernels attention_backward_bf16_cols128();
BackwardKernels attention_backward_bf16_cols256();
BackwardKernels attention_backward_f16_cols64();
BackwardKernels attention_backward_f16_cols128();
BackwardKernels attention_backward_f16_cols256();

}  // namespace attile::gpu::sm90
