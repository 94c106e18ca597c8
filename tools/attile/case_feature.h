// SPDX-License-Identifier: Apache-2.0
// What a conformance case is chiefly about, in two words, so that a table of thousands of cases has tens of rows.
#pragma once

#include <string>

namespace attile::test {
struct Case;
}

namespace attile::cli {

std::string case_feature(const test::Case &one);

}  // namespace attile::cli
