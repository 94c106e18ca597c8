// SPDX-License-Identifier: Apache-2.0
// gemm on Hopper's tensor cores: which problems are taken, and the launches. As simt::Accelerator describes the functions.
#pragma once

#include "gemm/sm90/plan.h"
#include "host/accelerator.h"
#include "sm90/tensor_map.h"

namespace attile::sm90 {

int32_t gemm_query(simt::Device &device, const attile_gemm_problem &problem, attile_support &support, bool &taken,
                   simt::Declined &declined);
int32_t gemm_run(simt::Device &device, const TensorMaps &maps, const attile_gemm_problem &problem, simt::Workspace &workspace,
                 simt::Stream stream);
// The launches of a plan for A and B of `dtype`.
int32_t gemm_run_plan(simt::Device &device, const TensorMaps &maps, const GemmPlan &plan, int32_t dtype, simt::Workspace &workspace,
                      simt::Stream stream);

}  // namespace attile::sm90
