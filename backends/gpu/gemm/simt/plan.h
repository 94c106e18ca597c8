// SPDX-License-Identifier: Apache-2.0
// gemm, and products of groups of rows, by SIMT, on every device. The workspace asked for must not depend on alignment.
#pragma once

#include "host/family.h"

namespace attile::gpu::simt {

Planned<attile_gemm_problem> plan_gemm(Device &device, const attile_gemm_problem &problem);
Planned<attile_gemm_grouped_problem> plan_gemm_grouped(Device &device, const attile_gemm_grouped_problem &problem);

}  // namespace attile::gpu::simt
