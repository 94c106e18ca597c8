// SPDX-License-Identifier: Apache-2.0
// The part of the table of illegal arguments that is about products of numbers of 8 bits.
#ifndef ATTILE_TESTS_ILLEGAL_QUANTISED_H
#define ATTILE_TESTS_ILLEGAL_QUANTISED_H

#include <vector>

#include "illegal_arguments.h"

namespace attile_test {

void append_illegal_quantised(std::vector<IllegalArgument> *table);

}  // namespace attile_test

#endif
