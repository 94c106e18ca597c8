// SPDX-License-Identifier: Apache-2.0
// gemm on Hopper's tensor cores: which problems are taken, and the launches. As gpu::Accelerator describes the functions.
#pragma once

#include "gemm/sm90/plan.h"
#include "host/accelerator.h"

namespace attile::gpu::sm90 {

int32_t gemm_query(Device &device, const attile_gemm_problem &problem, attile_support &support, bool &taken, Declined &declined);
int32_t gemm_run(Device &device, const attile_gemm_problem &problem, Workspace &workspace, Stream stream);
// The launches of a plan for A and B of `dtype`.
int32_t gemm_run_plan(Device &device, const GemmPlan &plan, int32_t dtype, Workspace &workspace, Stream stream);

}  // namespace attile::gpu::sm90
