// SPDX-License-Identifier: Apache-2.0
// An instance of the Hopper kernels of attention's gradients as the host sees it. Which there are:
// attention_backward/sm90/instances.cmake.
#pragma once

#include "attention_backward/sm90/arguments.h"

namespace attile::gpu::sm90 {

struct BackwardKernels {
    const char *name = nullptr;
    const void *kernel = nullptr;
    const void *finish = nullptr;  // Null: gradients of scores are left for backward_sum().
    const BackwardShape *shape = nullptr;
};

}  // namespace attile::gpu::sm90
