// SPDX-License-Identifier: Apache-2.0
// An instance of the sm_80 kernels of attention's gradients as the host sees it. Which there are:
// attention_backward/sm80/instances.cmake.
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

}  // namespace attile::gpu::sm80
