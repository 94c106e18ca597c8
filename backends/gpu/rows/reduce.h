// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "host/family.h"

namespace attile::gpu {

namespace simt {
Planned<attile_reduce_problem> plan_reduce(Device &device, const attile_reduce_problem &problem);
}

// The address of some kernel, to ask the runtime whether this build has code for a device.
const void *some_kernel();

}  // namespace attile::gpu
