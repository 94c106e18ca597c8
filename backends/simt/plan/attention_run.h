// SPDX-License-Identifier: Apache-2.0
// Parts of attention_query and attention_run that kernels of a vendor's own go through too.
#pragma once

#include "plan/attention_plan.h"

namespace attile::simt {

// The problem in the kernels' words, cut as the plan says.
AttentionParams attention_params(const attile_attention_problem &problem, const AttentionPlan &plan);

// What query answers about a plan that can be run.
void attention_report(Device &device, const attile_attention_problem &problem, const AttentionPlan &plan, attile_support &support);

// The partial results of splits, put together: params.part_o and params.part_lse to params.o and params.lse.
int32_t attention_combine(Device &device, const AttentionParams &params, const attile_attention_problem &problem, Stream stream);

}  // namespace attile::simt
