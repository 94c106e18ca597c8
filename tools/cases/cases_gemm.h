// SPDX-License-Identifier: Apache-2.0
// Cases of matrix multiplication.
#pragma once

#include <attile/attile.h>

#include <cstdint>
#include <string>
#include <vector>

#include "test_tensor.h"

namespace attile::test {

/// How an operand takes part in the batch.
enum class BatchForm : std::uint8_t {
    kFull,
    kUnit,     ///< extents of 1
    kMissing,  ///< no batch axes: rank 2
};

enum class GemmPattern : std::uint8_t {
    kNormal,
    kPositive,          ///< sums that grow: rounding adds up
    kAlternating,       ///< signs that cancel along k
    kSpecial,           ///< a NaN, an infinity and a zero here and there
    kSubnormal,         ///< results below the smallest normal number
    kLowest,            ///< every number the most negative of its type: sums as large as they can be
    kSpread,            ///< magnitudes over hundreds of binary orders
    kCancelling,        ///< the second half of k takes away what the first has added, but for last bits
    kIntegers,          ///< small integers: sums that are exact
    kIntegersBySpread,  ///< small integers times magnitudes over hundreds of binary orders
    kTies,              ///< sums half a last bit beside a number, and little more and less
    kTiny,              ///< a of subnormal numbers
};

/// Scales of an operand of 8 bits: the numbers that share one, along k and along m or n; 0: all there are.
struct GemmScales {
    bool given = false;
    std::int64_t depth = 0, width = 1;
    BatchForm form = BatchForm::kMissing;
    Layout layout = {};
};

/// What a result of 8 bits is over.
struct ResultScales {
    bool given = false;
    std::uint8_t axes = 0;  ///< bit per axis of d: they have its full extent, else extent 1; further leading axes are left out
    std::uint8_t rank = 4;  ///< at most
    Layout layout = {};
};

struct GemmCase {
    std::int32_t dtype = ATTILE_F32;      ///< of a and b
    std::int32_t out_dtype = ATTILE_F32;  ///< of c and d; of d alone, if it has 8 bits
    std::int32_t bias_dtype = ATTILE_F32;
    std::vector<std::int64_t> batch;  ///< 0 to 2 extents
    std::int64_t m = 5, n = 7, k = 9;
    double alpha = 1, beta = 0;
    bool c_given = false;  ///< c is passed although beta is 0: full of NaN, and not to be read
    std::int32_t bias_axis = ATTILE_BIAS_NONE;
    std::int32_t activation = ATTILE_ACTIVATION_NONE;
    BatchForm a_form = BatchForm::kFull, b_form = BatchForm::kFull, c_form = BatchForm::kFull, bias_form = BatchForm::kFull;
    Layout a_layout = {}, b_layout = {}, c_layout = {}, d_layout = {}, bias_layout = {};
    bool in_place = false;  ///< c is d
    std::uint32_t flags = 0;
    GemmPattern pattern = GemmPattern::kNormal;
    std::uint64_t seed = 1;
    std::int32_t b_dtype = 0;  ///< of b, if it is not that of a
    GemmScales a_scales = {}, b_scales = {};
    ResultScales d_scales = {};

    std::int32_t type_of_b() const { return b_dtype != 0 ? b_dtype : dtype; }
};

inline GemmCase gemm_of(std::int64_t m, std::int64_t n, std::int64_t k) {
    GemmCase c;
    c.m = m;
    c.n = n;
    c.k = k;
    return c;
}

struct Case;
enum class Tier;
void append_gemm_cases(std::vector<Case> &list, Tier tier);
GemmCase random_gemm(std::uint64_t seed);
std::string describe(const GemmCase &c);

}  // namespace attile::test
