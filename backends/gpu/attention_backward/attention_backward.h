// SPDX-License-Identifier: Apache-2.0
// attention_backward: the host side of the kernel family, as attention.h.
#pragma once

#include "device.h"
#include "host/workspace.h"

namespace attile::gpu {

int32_t attention_backward_query(Device &device, const attile_attention_backward_problem &problem, attile_support &support);
int32_t attention_backward_run(Device &device, const attile_attention_backward_problem &problem, Workspace &workspace, Stream stream);

}  // namespace attile::gpu
