// SPDX-License-Identifier: Apache-2.0
// gemm whose result is of 8 bits: any family's product, in float32 in the workspace, and one pass of quantisation from there to D.
#pragma once

#include "host/family.h"

namespace attile::gpu::narrow {

Planned<attile_gemm_problem> plan_gemm_result(Device &device, const attile_gemm_problem &problem);

}  // namespace attile::gpu::narrow
