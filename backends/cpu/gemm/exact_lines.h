// SPDX-License-Identifier: Apache-2.0
// Rows of a and columns of b as exact products by residues (gemm/exact_residues.cpp) see them: what is known of their numbers, and the
// integers that are made of these.
#ifndef ATTILE_CPU_EXACT_LINES_H
#define ATTILE_CPU_EXACT_LINES_H

#include <cstdint>

#include "gemm/exact.h"

namespace attile::cpu {

// Bits of the norms of integers: at most; more where many elements stay undecided; and as many less than the bits of the product of the
// moduli, so that sums are below half of it. Numbers of which the squares of what rounding changes underflow change less than the last.
constexpr double kMostBits = 116, kMoreBits = 45, kBitsBelowModulus = 1.3, kUnderflown = 0x1p-400;

// What is known of a row of a or a column of b, and made of it.
struct Line {
    LineStatistics found;
    double bits = 0;    // log2 of the 2-norm
    double needed = 0;  // log2 of the 2-norm over the last bit's value: as large the norm of exact integers is
    bool rounds = false;
    double changes = 0;  // the sum of the squares of what rounding has changed
};

struct Lines {
    Line *line;
    int64_t *scale;  // integers are numbers times 2 to this
    double *size, *error;
    int64_t count;
    int words = 1;

    // As if integers were the numbers: intervals are single numbers then.
    void forget_rounding() {
        for (int64_t i = 0; i < count; ++i) {
            line[i].rounds = false;
            error[i] = 0;
        }
    }
};

// The bits of the largest norm of integers that need no rounding.
double bits_of(const Lines &lines);
// Those for which sums of so many terms are decided mostly.
double usual_bits(const Lines &rows, const Lines &columns, int64_t depth);
// Integers of lines, their norms up to 2^most_bits.
void choose_scales(double most_bits, int64_t depth, Lines *lines);
// Moduli for sums of so many bits, as far as there are any.
int moduli_for(double bits);

}  // namespace attile::cpu

#endif  // ATTILE_CPU_EXACT_LINES_H
