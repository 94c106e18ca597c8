// SPDX-License-Identifier: Apache-2.0
// An instance of the Hopper attention kernel for float32 by tf32x3 as the host sees it. Which there are: attention/sm90/instances.cmake.
#pragma once

#include "attention/sm90/tf32x3_shapes.h"

namespace attile::gpu::sm90 {

struct AttentionTf32x3Kernel {
    const char *name = nullptr;
    const void *kernel = nullptr;
    const AttentionTf32x3Shape *shape = nullptr;
};

}  // namespace attile::gpu::sm90
