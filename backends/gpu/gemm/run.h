// SPDX-License-Identifier: Apache-2.0
// What SIMT's plans and those of other families have in common: whether they can be launched, and the launches.
#pragma once

#include "gemm/plan.h"
#include "host/workspace.h"

namespace attile::gpu {

// Can the plan's blocks be launched? A grid has one dimension; what does not fit is launched in several pieces, along the batch.
bool gemm_fits(const GemmPlan &plan);

// The launches of a plan: the kernel, which takes GemmParams, and where the depth is split what adds the partial results.
int32_t gemm_launch(Device &device, const GemmProduct &product, const GemmPlan &plan, Workspace &workspace, Stream stream);

}  // namespace attile::gpu
