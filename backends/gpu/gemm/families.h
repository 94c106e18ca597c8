// SPDX-License-Identifier: Apache-2.0
// gemm, and products of groups of rows: their families. Operands are reachable by the device.
#pragma once

#include "host/family.h"

namespace attile::gpu {

extern const Families<attile_gemm_problem> kGemmFamilies;
extern const Families<attile_gemm_grouped_problem> kGemmGroupedFamilies;

}  // namespace attile::gpu
