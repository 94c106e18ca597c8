// SPDX-License-Identifier: Apache-2.0
// gemm by mma.sync: which problems are taken, in which tiles, and the launches. As gpu::Accelerator describes the functions.
#pragma once

#include "host/accelerator.h"

namespace attile::gpu::sm80 {

int32_t gemm_query(Device &device, const attile_gemm_problem &problem, attile_support &support, bool &taken, Declined &declined);
int32_t gemm_run(Device &device, const attile_gemm_problem &problem, Workspace &workspace, Stream stream);

}  // namespace attile::gpu::sm80
