// SPDX-License-Identifier: Apache-2.0
// The parts of a merge as drawn, and their merged result computed plainly.
#pragma once

#include <vector>

#include "cases_merge.h"
#include "test_random.h"
#include "test_tensor.h"

namespace attile::test {

struct MergeParts {
    std::vector<Values> o, lse;  ///< One for each part. Rows that saw no key hold NaN in o, where no other row shares them.
};

struct MergedValues {
    Values o, lse;
};

MergeParts draw_merge_parts(const MergeCase &c, Random &random);

/// In T, over the parts in their order or backwards. `magnitude`: not the result, but the sum of the absolute values that make it.
template <class T>
MergedValues merge_plainly(const MergeParts &parts, bool backwards, bool magnitude);

extern template MergedValues merge_plainly<float>(const MergeParts &parts, bool backwards, bool magnitude);
extern template MergedValues merge_plainly<double>(const MergeParts &parts, bool backwards, bool magnitude);

}  // namespace attile::test
