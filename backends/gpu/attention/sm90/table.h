// SPDX-License-Identifier: Apache-2.0
// An instance of the Hopper attention kernel as the host sees it. Which there are: attention/sm90/instances.cmake.
#pragma once

#include "attention/sm90/arguments.h"

namespace attile::gpu::sm90 {

struct AttentionKernel {
    const char *name = nullptr;
    const void *kernel = nullptr;
    const AttentionShape *shape = nullptr;
};

}  // namespace attile::gpu::sm90
