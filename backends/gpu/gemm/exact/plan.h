// SPDX-License-Identifier: Apache-2.0
// gemm of float64 and float32 with EXACT_PRODUCTS, on every device: residues of rows and columns, whose products of int8 the other families
// sum, and sums in fixed point where these leave an element undecided.
#pragma once

#include "host/family.h"

namespace attile::gpu::exact {

Planned<attile_gemm_problem> plan_gemm(Device &device, const attile_gemm_problem &problem);

}  // namespace attile::gpu::exact
