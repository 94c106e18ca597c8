// SPDX-License-Identifier: Apache-2.0
// attention of q, k and v of int8, multiplied as they are (attention/simt/int8_tile.cuh), on devices that multiply four int8 at a time.
#pragma once

#include "attention/plan.h"
#include "host/family.h"

namespace attile::gpu::simt {

// `usual` is the plan of the problem with q as float32, which takes what these kernels do not; usual_workspace what that wants in all.
Planned<attile_attention_problem> plan_attention_int8(Device &device, const attile_attention_problem &problem, const AttentionPlan &usual,
                                                      int64_t usual_workspace);

}  // namespace attile::gpu::simt
