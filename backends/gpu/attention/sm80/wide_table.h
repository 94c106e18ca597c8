// SPDX-License-Identifier: Apache-2.0
// An instance of the sm_80 attention kernel for wide heads as the host sees it. Which there are: attention/sm80/instances.cmake.
#pragma once

#include "attention/sm80/wide_shapes.h"

namespace attile::gpu::sm80 {

struct AttentionWideKernel {
    const char *name = nullptr;
    const void *kernel = nullptr;
    const AttentionWideShape *shape = nullptr;
};

}  // namespace attile::gpu::sm80
