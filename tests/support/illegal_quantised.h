// SPDX-License-Identifier: Apache-2.0
// The parts of the table of illegal arguments that are about numbers of 8 bits: products, and attention.
#ifndef ATTILE_TESTS_ILLEGAL_QUANTISED_H
#define ATTILE_TESTS_ILLEGAL_QUANTISED_H

#include <vector>

#include "illegal_arguments.h"

namespace attile_test {

void append_illegal_quantised(std::vector<IllegalArgument> *table);
void append_illegal_cache(std::vector<IllegalArgument> *table);

}  // namespace attile_test

#endif
