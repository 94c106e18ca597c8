// SPDX-License-Identifier: Apache-2.0
// Attention whose result is of 8 bits: any family's, in float32 in the workspace, and one pass from there to o.
#pragma once

#include "host/family.h"

namespace attile::gpu {

Planned<attile_attention_problem> plan_attention_result(Device &device, const attile_attention_problem &problem);

}  // namespace attile::gpu
