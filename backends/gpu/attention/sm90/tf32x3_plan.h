// SPDX-License-Identifier: Apache-2.0
// Attention forward of float32 by tf32x3 on Hopper: which problems it takes. The rest is left to the kernels of sm80 and simt.
#pragma once

#include "attention/mma/plan.h"

namespace attile::gpu::sm90 {

using namespace mma;

Planned<attile_attention_problem> plan_attention_tf32x3(Device &device, const attile_attention_problem &problem);

}  // namespace attile::gpu::sm90
