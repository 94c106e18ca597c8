// SPDX-License-Identifier: Apache-2.0
// Few rows of A times weights of 8 or 4 bits, which are read where they lie.
#pragma once

#include "host/family.h"

namespace attile::gpu::narrow {

// Declined without a word where it is for other plans. It needs no workspace, and asks for as much as those may want where B's address is
// not known yet.
Planned<attile_gemm_problem> plan_few_rows(Device &device, const attile_gemm_problem &problem, int64_t workspace);

}  // namespace attile::gpu::narrow
