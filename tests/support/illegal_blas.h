// SPDX-License-Identifier: Apache-2.0
// The part of the table of illegal arguments that calls by BLAS names.
#ifndef ATTILE_TESTS_ILLEGAL_BLAS_H
#define ATTILE_TESTS_ILLEGAL_BLAS_H

#include <vector>

#include "illegal_arguments.h"

namespace attile_test {

// Orders, transpositions, extents, leading dimensions, factors and pointers of attile_sgemm and attile_dgemm.
void append_illegal_blas(std::vector<IllegalArgument> *table);

}  // namespace attile_test

#endif
