// SPDX-License-Identifier: Apache-2.0
// gemm by mma.sync: which problems are taken, in which tiles, and the launches. As simt::Accelerator describes the functions.
#pragma once

#include "host/accelerator.h"

namespace attile::sm80 {

int32_t gemm_query(simt::Device &device, const attile_gemm_problem &problem, attile_support &support, bool &taken,
                   simt::Declined &declined);
int32_t gemm_run(simt::Device &device, const attile_gemm_problem &problem, simt::Workspace &workspace, simt::Stream stream);

}  // namespace attile::sm80
