// SPDX-License-Identifier: Apache-2.0
// gemm of numbers of 8 and 4 bits, on every device. Products of int8 have a kernel; else the operands are rewritten in a type that the
// other families multiply: exactly, unscaled, as f16 or bf16 for tensor cores where scales are constant along the depth, or scaled, as f32.
#pragma once

#include "host/family.h"

namespace attile::gpu::narrow {

Planned<attile_gemm_problem> plan_gemm(Device &device, const attile_gemm_problem &problem);

}  // namespace attile::gpu::narrow
