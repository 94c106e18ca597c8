// SPDX-License-Identifier: Apache-2.0
// Attention in float64 composed of GEMM's products: scores and probabilities of a slice of rows are in the workspace.
#pragma once

#include "attention/plan.h"
#include "host/family.h"

namespace attile::gpu::simt {

// `general`: the plan of the kernel that takes anything, which does heads whose V holds infinities again. Declines, with the reason, what
// that kernel is to take alone.
Planned<attile_attention_problem> plan_attention_f64(Device &device, const attile_attention_problem &problem, const AttentionPlan &general);

}  // namespace attile::gpu::simt
