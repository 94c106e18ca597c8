// SPDX-License-Identifier: Apache-2.0
// The launches of a plan of SIMT's kernels.
#pragma once

#include "attention/plan.h"
#include "host/workspace.h"

namespace attile::gpu::simt {

int32_t run_plan(Device &device, const attile_attention_problem &problem, const AttentionPlan &plan, Workspace workspace, Stream stream);

}  // namespace attile::gpu::simt
