// SPDX-License-Identifier: Apache-2.0
// Exact products: their cases.
#pragma once

#include <vector>

#include "cases.h"

namespace attile::test {

void append_exact_cases(std::vector<Case> &list, Tier tier);

}  // namespace attile::test
