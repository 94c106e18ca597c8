// SPDX-License-Identifier: Apache-2.0
// Gradients in float64 composed of GEMM's products: P and dS of a slice of rows are in the workspace.
#pragma once

#include "attention_backward/plan.h"
#include "host/family.h"

namespace attile::gpu::simt {

// `general`: the plan of the kernels that take anything, which do heads with infinities again. Declines, with the reason, what those are to
// take alone.
Planned<attile_attention_backward_problem> plan_attention_backward_f64(Device &device, const attile_attention_backward_problem &problem,
                                                                       const AttentionBackwardPlan &general);

}  // namespace attile::gpu::simt
