// SPDX-License-Identifier: Apache-2.0
// The steps that exact rows are defined by (docs/numerics.md): exp and log of float64, each product, sum and quotient rounded by itself;
// numbers of all types as float64, and results rounded once.
#pragma once

#include "gemm/exact/numbers.h"
#include "numeric.h"

namespace attile::gpu::exact {

// ln 2 in two parts, the first of so few bits that its product with any exponent is exact.
inline constexpr double kStepsLn2High = 0x1.62e4p-1, kStepsLn2Low = 0x1.7f7d1cf79abcap-20;
inline constexpr double kStepsMagic = 0x1.8p52;  // What it is added to becomes an integer.
constexpr double inverse_factorial(int k) {
    double factorial = 1;
    for (int i = 2; i <= k; ++i) factorial *= i;
    return 1 / factorial;
}

// e^t for t <= 0, which is no NaN.
ATTILE_LANE_FN double exp_by_steps(double t) {
    constexpr double kTerms[] = {inverse_factorial(13), inverse_factorial(12), inverse_factorial(11), inverse_factorial(10),
                                 inverse_factorial(9),  inverse_factorial(8),  inverse_factorial(7),  inverse_factorial(6),
                                 inverse_factorial(5),  inverse_factorial(4),  inverse_factorial(3),  inverse_factorial(2)};
    if (t < -746) return 0;  // Less than half of the least number.
    const double n = rounded_sum(rounded_sum(rounded_product(t, 0x1.71547652b82fep+0), kStepsMagic), -kStepsMagic);
    const double near = rounded_sum(t, -rounded_product(n, kStepsLn2High));
    const double r = rounded_sum(near, -rounded_product(n, kStepsLn2Low));
    double q = kTerms[0];
#pragma unroll
    for (int i = 1; i < 12; ++i) q = rounded_sum(rounded_product(q, r), kTerms[i]);
    const double e = rounded_sum(1, rounded_sum(r, rounded_product(rounded_product(r, r), q)));
    // 2^n as two factors, each of which is a normal number: the second product alone may be rounded.
    const int whole = static_cast<int>(n), half = whole / 2;
    return rounded_product(rounded_product(e, power_of_two(half)), power_of_two(whole - half));
}

// ln z for z >= 1, which is finite.
ATTILE_LANE_FN double log_by_steps(double z) {
    constexpr double kTerms[] = {2.0 / 21, 2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13, 2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3};
    const uint64_t bits = bits_of(z);
    int exponent = static_cast<int>(bits >> 52) - 1023;
    double m = double_of((bits & 0xfffffffffffffu) | uint64_t{1023} << 52);
    if (m >= 0x1.6a09e667f3bcdp+0) {  // The root of 2.
        m = rounded_product(m, 0.5);
        ++exponent;
    }
    const double f = rounded_sum(m, -1), s = rounded_quotient(f, rounded_sum(2, f)), square = rounded_product(s, s);
    double r = kTerms[0];
#pragma unroll
    for (int i = 1; i < 10; ++i) r = rounded_sum(rounded_product(r, square), kTerms[i]);
    r = rounded_product(r, square);
    const double half = rounded_product(rounded_product(f, f), 0.5), n = static_cast<double>(exponent);
    const double near = rounded_sum(rounded_product(s, rounded_sum(half, r)), rounded_product(n, kStepsLn2Low));
    return rounded_sum(rounded_product(n, kStepsLn2High), -rounded_sum(rounded_sum(half, -near), -f));
}

// Element `at` of an array, exactly.
ATTILE_LANE_FN double load_exact(const void *from, int64_t at, int32_t dtype) {
    if (dtype == ATTILE_F64) return static_cast<const double *>(from)[at];
    if (dtype == ATTILE_F32) return static_cast<double>(static_cast<const float *>(from)[at]);
    if (dtype == ATTILE_F16) return static_cast<double>(to_compute(static_cast<const F16 *>(from)[at]));
    return static_cast<double>(to_compute(static_cast<const BF16 *>(from)[at]));
}

// A float from which a number can go on to 16 bits: of a double that is no float the last bit is set (rounding to odd), so that it is
// rounded once, not twice.
ATTILE_LANE_FN float rounded_to_odd(double x) {
    const float nearest = static_cast<float>(x);
    const double back = static_cast<double>(nearest);
    if (back == x) return nearest;
    const bool is_away = (x < 0 ? -back : back) > (x < 0 ? -x : x);
    return __uint_as_float((bits_of(nearest) - (is_away ? 1u : 0u)) | 1u);
}

// Every NaN is the one that is quiet, positive and without payload.
ATTILE_LANE_FN void store_exact(void *to, int64_t at, int32_t dtype, double x) {
    const bool is_nan = x != x;
    if (dtype == ATTILE_F64)
        static_cast<uint64_t *>(to)[at] = is_nan ? kNanBits : bits_of(x);
    else if (dtype == ATTILE_F32)
        static_cast<uint32_t *>(to)[at] = is_nan ? 0x7fc00000u : bits_of(static_cast<float>(x));
    else if (dtype == ATTILE_F16)
        static_cast<uint16_t *>(to)[at] = is_nan ? uint16_t{0x7e00} : from_compute<F16>(rounded_to_odd(x)).bits;
    else
        static_cast<uint16_t *>(to)[at] = is_nan ? uint16_t{0x7fc0} : from_compute<BF16>(rounded_to_odd(x)).bits;
}

ATTILE_LANE_FN double minus_infinity() { return double_of(kInfinityBits | kSignBit); }

// The larger and the smaller, of zeros +0 and -0; NaN if either is.
ATTILE_LANE_FN double larger(double a, double b) { return a != a || a > b || (a == b && bits_of(b) >> 63 != 0) ? a : b; }
ATTILE_LANE_FN double smaller(double a, double b) { return a != a || a < b || (a == b && bits_of(a) >> 63 != 0) ? a : b; }

// What a row has whose largest x, or lse, is not finite: zeros if there is none but minus infinity, else NaN.
ATTILE_LANE_FN bool has_weights(double top) { return (bits_of(top) & kInfinityBits) != kInfinityBits; }
ATTILE_LANE_FN double without_weights(double top) { return top == minus_infinity() ? 0.0 : double_of(kNanBits); }

// Where the bits of weights e^(x - top) end, of all x from `least` on that is finite.
ATTILE_LANE_FN int last_of_weights(double least, double top) {
    const double t = least - top;
    return t > -700 ? static_cast<int>(t * 1.4427) - 56 : -1074;
}

}  // namespace attile::gpu::exact
