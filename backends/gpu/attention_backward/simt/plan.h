// SPDX-License-Identifier: Apache-2.0
// attention_backward by SIMT, on every device. The workspace asked for must not depend on alignment.
#pragma once

#include "host/family.h"

namespace attile::gpu::simt {

Planned<attile_attention_backward_problem> plan_attention_backward(Device &device, const attile_attention_backward_problem &problem);

}  // namespace attile::gpu::simt
