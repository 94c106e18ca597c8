// SPDX-License-Identifier: Apache-2.0
// The part of the table of illegal arguments that is about merging and its gradients.
#ifndef ATTILE_TESTS_ILLEGAL_MERGES_H
#define ATTILE_TESTS_ILLEGAL_MERGES_H

#include <vector>

#include "illegal_arguments.h"

namespace attile_test {

// Counts and arrays of parts, types and extents that disagree, and parts that are lost.
void append_illegal_merges(std::vector<IllegalArgument> *table);

}  // namespace attile_test

#endif
