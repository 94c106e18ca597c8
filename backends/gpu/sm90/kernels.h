// SPDX-License-Identifier: Apache-2.0
// The kernels for Hopper's tensor cores.
#pragma once

#include "device.h"

namespace attile::gpu::sm90 {

inline constexpr KernelSet kKernels = {"sm_90a", "tensor cores"};

}  // namespace attile::gpu::sm90
