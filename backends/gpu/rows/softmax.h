// SPDX-License-Identifier: Apache-2.0
// softmax: the host side of the kernel family. Operands are reachable by the device; query never looks at data pointers' targets, and a
// null pointer in a query counts as aligned, but for the workspace, which then is enough for any address.
#pragma once

#include "device.h"
#include "host/workspace.h"

namespace attile::gpu {

int32_t softmax_query(Device &device, const attile_softmax_problem &problem, attile_support &support);
int32_t softmax_run(Device &device, const attile_softmax_problem &problem, Workspace &workspace, Stream stream);

}  // namespace attile::gpu
