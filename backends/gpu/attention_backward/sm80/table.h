// SPDX-License-Identifier: Apache-2.0
// The instances of the sm_80 kernels of attention's gradients as the host sees them.
#pragma once

#include <cstdint>

#include "attention_backward/sm80/shapes.h"

namespace attile::gpu::sm80 {

struct BackwardKernel {
    const void *kernel = nullptr;
    const BackwardShape *shape = nullptr;
};

// What heads of up to `depth` columns take.
struct BackwardKernels {
    const char *name = nullptr;
    BackwardKernel keys, rows;
    BackwardKernel small_keys;                    // Where the device lacks the shared memory for `keys`; may be absent.
    BackwardKernel modified_keys, modified_rows;  // Where scores pass through more than a mask.
};

BackwardKernels attention_backward_bf16_cols64();
BackwardKernels attention_backward_bf16_cols128();
BackwardKernels attention_backward_bf16_cols256();
BackwardKernels attention_backward_f16_cols64();
BackwardKernels attention_backward_f16_cols128();
BackwardKernels attention_backward_f16_cols256();

}  // namespace attile::gpu::sm80
