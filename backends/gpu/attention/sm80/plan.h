// SPDX-License-Identifier: Apache-2.0
// Which attention problems the sm_80 kernel takes, and in which tile; and its launch.
#pragma once

#include "attention/mma/plan.h"

namespace attile::gpu::sm80 {

Planned<attile_attention_problem> plan_attention(Device &device, const attile_attention_problem &problem);

}  // namespace attile::gpu::sm80
