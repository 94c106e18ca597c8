// SPDX-License-Identifier: Apache-2.0
// What the argument fuzzer has called so far.
#ifndef ATTILE_TESTS_FUZZ_COUNTS_H
#define ATTILE_TESTS_FUZZ_COUNTS_H

#include <cstdint>

namespace attile_test {

void print_counts();
int64_t count_calls();

}  // namespace attile_test

#endif
