// SPDX-License-Identifier: Apache-2.0
// Gradients composed of GEMM's products: P and dS of a slice of rows are in the workspace.
#pragma once

#include "attention_backward/plan.h"
#include "host/family.h"

namespace attile::gpu::simt {

// Of what the kernels that take anything would take otherwise, as `general` says: float64, and heads above 256 columns. Those kernels do
// heads with infinities again. Declines, with the reason, what they are to take alone.
Planned<attile_attention_backward_problem> plan_attention_backward_composed(Device &device,
                                                                            const attile_attention_backward_problem &problem,
                                                                            const AttentionBackwardPlan &general);

}  // namespace attile::gpu::simt
