// SPDX-License-Identifier: Apache-2.0
// Problems for exact sums of rows, the same on every machine: reduce, softmax, merge and attention.
#ifndef ATTILE_TESTS_EXACT_ROWS_H
#define ATTILE_TESTS_EXACT_ROWS_H

#include <attile/attile.h>

#include <cstdint>
#include <string>
#include <vector>

#include "exact_problems.h"

namespace attile::test {

enum class ExactOperation { kReduce, kSoftmax, kMerge, kAttention };

struct ExactRows {
    std::string name;
    ExactOperation operation;
    int32_t reduction;         // of reduce
    int32_t dtype, out_dtype;  // of x and y, or of the parts' o and of o
    int64_t rows, length;      // numbers of a row, parts, or keys
    int64_t columns;           // of merge, and of v; q and k have 5 more
    ExactNumbers numbers;
    uint64_t seed;
    bool by_columns;  // rows lie side by side
    int64_t step;     // of elements in memory
    bool with_all;    // of attention: a causal mask, a bias, slopes and sinks
};

std::vector<ExactRows> exact_rows();
ExactRows random_exact_rows(uint64_t seed);

// The elements of y, or of o and then of lse, in the order of rows, as bytes; none if the call failed, whose sentence then is in `why`.
std::vector<unsigned char> run_exact(attile_context *context, const ExactRows &problem, std::string *why);

}  // namespace attile::test

#endif  // ATTILE_TESTS_EXACT_ROWS_H
