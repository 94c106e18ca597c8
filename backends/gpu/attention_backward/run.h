// SPDX-License-Identifier: Apache-2.0
// What SIMT's plans and those of other families have in common.
#pragma once

#include "attention_backward/plan.h"

namespace attile::gpu {

// The problem in the kernels' words, cut as the plan says; places in the workspace and the launch's share of the work are left open.
AttentionBackwardParams attention_backward_params(const attile_attention_backward_problem &problem, const AttentionBackwardPlan &plan);

// What a query says of the problem's arithmetic and memory.
void attention_backward_count(const attile_attention_backward_problem &problem, attile_support &support);

}  // namespace attile::gpu
