// SPDX-License-Identifier: Apache-2.0
// An instance of the sm_80 attention kernel as the host sees it. Which there are: attention/sm80/instances.cmake.
#pragma once

#include "attention/sm80/shapes.h"

namespace attile::gpu::sm80 {

struct AttentionKernel {
    const char *name = nullptr;
    const void *kernel = nullptr;
    const AttentionShape *shape = nullptr;
};

}  // namespace attile::gpu::sm80
