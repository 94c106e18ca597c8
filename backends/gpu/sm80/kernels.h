// SPDX-License-Identifier: Apache-2.0
// The kernels for the tensor cores of capability 8.0 and later.
#pragma once

#include "device.h"

namespace attile::gpu::sm80 {

inline constexpr KernelSet kKernels = {"sm_80", "tensor cores"};

// Any of them: whether the build has code for a device is asked of it.
const void *some_kernel();

}  // namespace attile::gpu::sm80
