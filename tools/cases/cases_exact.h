// SPDX-License-Identifier: Apache-2.0
// Exact products: their cases.
#pragma once

#include <vector>

#include "case_options.h"
#include "cases.h"

namespace attile::test {

void append_exact_cases(std::vector<Case> &list, Tier tier);
/// Of the cases of reduce, softmax or merge from the given place of the list on, the same with exact sums, and some more.
void append_exact_rows(std::vector<Case> &list, std::size_t first);

/// EXACT_PRODUCTS, of every operation that has it, where the reference's plain loops do not take long.
CaseOption exact_option();

}  // namespace attile::test
