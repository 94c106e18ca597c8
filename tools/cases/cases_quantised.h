// SPDX-License-Identifier: Apache-2.0
// Matrix multiplication of numbers of 8 bits: its cases, and its options.
#pragma once

#include <vector>

#include "case_options.h"
#include "cases.h"

namespace attile::test {

void append_quantised_cases(std::vector<Case> &list, Tier tier);
GemmCase random_quantised_gemm(std::uint64_t seed);
std::vector<CaseOption> quantised_options();

}  // namespace attile::test
