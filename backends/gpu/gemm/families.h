// SPDX-License-Identifier: Apache-2.0
// gemm, and products of groups of rows: their families. Operands are reachable by the device.
#pragma once

#include "gemm/residue_sums.h"
#include "host/family.h"

namespace attile::gpu {

extern const Families<attile_gemm_problem> kGemmFamilies;
extern const Families<attile_gemm_grouped_problem> kGemmGroupedFamilies;
// By the family that stores residues, if the device runs one; declined without a word where sums are to be stored, and made residues later.
Planned<ResidueSums> plan_residue_sums(Device &device, const ResidueSums &problem);

}  // namespace attile::gpu
