// SPDX-License-Identifier: Apache-2.0
// Attention composed of GEMM's products: scores and probabilities of a slice of rows are in the workspace.
#pragma once

#include "attention/plan.h"
#include "host/family.h"

namespace attile::gpu::simt {

// Of what the kernel that takes anything would take otherwise, as `usual` says: float64, heads above 256 columns and the largest scales; of
// everything where the environment asks for it. That kernel does heads whose V holds infinities again. Declines, with the reason, what it
// is to take alone.
Planned<attile_attention_problem> plan_attention_products(Device &device, const attile_attention_problem &problem,
                                                          const AttentionPlan &usual);

}  // namespace attile::gpu::simt
