// SPDX-License-Identifier: Apache-2.0
// gemm: its families. Operands are reachable by the device.
#pragma once

#include "host/family.h"

namespace attile::gpu {

extern const Families<attile_gemm_problem> kGemmFamilies;

}  // namespace attile::gpu
