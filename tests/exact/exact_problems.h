// SPDX-License-Identifier: Apache-2.0
// Problems for exact products, the same on every machine.
#ifndef ATTILE_TESTS_EXACT_PROBLEMS_H
#define ATTILE_TESTS_EXACT_PROBLEMS_H

#include <attile/attile.h>

#include <cstdint>
#include <string>
#include <vector>

namespace attile::test {

enum class ExactNumbers {
    kNormal,
    kUniform,
    kPositive,
    kSpread,      // over 600 binary orders
    kSomeSpread,  // over 60
    kCancelling,  // sums of 0, of a subnormal number's last bit, and of one bit beside far larger terms
    kTies,        // halves of last bits, and little more and less
    kIntegers,
    kSubnormal,
    kLarge,  // sums that overflow, or do not by a little
    kSpecial,
    kZeroLines,
};

struct ExactProblem {
    std::string name;
    bool f64;
    int64_t batch, m, n, k;
    ExactNumbers numbers;
    uint64_t seed;
    bool a_by_columns, b_by_columns, d_by_columns;
    int64_t step;  // of elements in memory
    bool b_shared;
    double alpha, beta;
    int32_t bias_axis;
    bool relu;
};

class Random;
// A normal deviate times 2^low to 2^high. The exponent is drawn first: as arguments of one call the two would be drawn in an order that is
// the compiler's choice, and the hashes of the table are of one order.
double spread_number(Random &random, int low, int high);
// A number of a row where the problem's kind is one of single numbers.
double exact_number(Random &random, ExactNumbers numbers, bool f64);

std::vector<ExactProblem> exact_problems();
ExactProblem random_exact_problem(uint64_t seed);

// The elements of d in the order of rows, as bytes; none if the call failed, whose sentence then is in `why`.
std::vector<unsigned char> run_exact(attile_context *context, const ExactProblem &problem, std::string *why);

}  // namespace attile::test

#endif  // ATTILE_TESTS_EXACT_PROBLEMS_H
