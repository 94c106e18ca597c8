// SPDX-License-Identifier: Apache-2.0
// Numbers of 8 bits: cases of products, and options of them and of attention.
#pragma once

#include <vector>

#include "case_options.h"
#include "cases.h"

namespace attile::test {

void append_quantised_cases(std::vector<Case> &list, Tier tier);
GemmCase random_quantised_gemm(std::uint64_t seed);
/// Products whose results are of 8 bits.
void append_narrow_products(std::vector<Case> &list, Tier tier);
std::vector<CaseOption> quantised_options();
std::vector<CaseOption> cached_options();  ///< of attention over keys and values of other types than q

}  // namespace attile::test
