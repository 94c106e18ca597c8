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

struct BackwardKernelSet {
    BackwardKernel keys;
    BackwardKernel small_keys;  // Where the device lacks the shared memory for `keys`; may be absent.
    BackwardKernel rows;
};

// What heads of up to `depth` columns take.
struct BackwardKernels {
    const char *name = nullptr;
    BackwardKernelSet plain;
    BackwardKernelSet bias, allowed, alibi, softcap;  // Where scores pass through that one option; `keys` may be absent.
    BackwardKernelSet modified;                       // Through several.
    BackwardKernelSet by_element;                     // Through bias or ALiBi after softcap.
};

}  // namespace attile::gpu::sm80
