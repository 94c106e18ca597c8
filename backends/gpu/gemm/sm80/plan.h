// SPDX-License-Identifier: Apache-2.0
// gemm by mma.sync: which problems are taken, in which tiles, and the launches.
#pragma once

#include "host/family.h"

namespace attile::gpu::sm80 {

Planned<attile_gemm_problem> plan_gemm(Device &device, const attile_gemm_problem &problem);         // Of f16 and bf16.
Planned<attile_gemm_problem> plan_gemm_tf32x3(Device &device, const attile_gemm_problem &problem);  // Of f32.
Planned<attile_gemm_problem> plan_gemm_f64(Device &device, const attile_gemm_problem &problem);     // Of f64.

}  // namespace attile::gpu::sm80
