// SPDX-License-Identifier: Apache-2.0
// reduce: the host side of the kernel family. Operands are reachable by the device; query never looks at data pointers' targets, and a null
// pointer in a query counts as aligned. The workspace asked for must not depend on alignment.
#pragma once

#include "device.h"
#include "host/workspace.h"

namespace attile::gpu {

int32_t reduce_query(Device &device, const attile_reduce_problem &problem, attile_support &support);
int32_t reduce_run(Device &device, const attile_reduce_problem &problem, Workspace &workspace, Stream stream);

// The address of some kernel, to ask the runtime whether this build has code for a device.
const void *some_kernel();

}  // namespace attile::gpu
