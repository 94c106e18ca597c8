// SPDX-License-Identifier: Apache-2.0
// The steps of exp and log that exact results are defined by (docs/numerics.md): products, sums and quotients of float64, each rounded by
// itself, so that they are the same bits everywhere.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace attile::reference {

// ln 2 in two parts: the first has 16 bits, so that its product with any exponent is exact.
inline constexpr double kLn2High = 0x1.62e4p-1, kLn2Low = 0x1.7f7d1cf79abcap-20;

constexpr double inverse_factorial(int k) {
    double factorial = 1;
    for (int i = 2; i <= k; ++i) factorial *= i;
    return 1 / factorial;
}

inline double power_of_two(int exponent) { return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52); }

// e^t for t <= 0, which is no NaN.
inline double exp_by_steps(double t) {
    if (t < -746) return 0;  // less than half of the least number
    const double n = std::nearbyint(t * 0x1.71547652b82fep+0);
    const double r = (t - n * kLn2High) - n * kLn2Low;
    double q = inverse_factorial(13);
    for (int k = 12; k >= 2; --k) q = q * r + inverse_factorial(k);
    const double e = 1 + (r + (r * r) * q);
    // 2^n as two factors, each of which is a normal number: the second product alone may be rounded.
    const int whole = static_cast<int>(n), half = whole / 2;
    return (e * power_of_two(half)) * power_of_two(whole - half);
}

// ln z for z >= 1, which is finite.
inline double log_by_steps(double z) {
    const std::uint64_t bits = std::bit_cast<std::uint64_t>(z);
    int n = static_cast<int>(bits >> 52) - 1023;
    double m = std::bit_cast<double>((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
    if (m >= 0x1.6a09e667f3bcdp+0) {  // the root of 2
        m /= 2;
        ++n;
    }
    const double f = m - 1, s = f / (2 + f), square = s * s;
    double r = 2.0 / 21;
    for (int k = 19; k >= 3; k -= 2) r = r * square + 2.0 / k;
    r *= square;
    const double half = f * f / 2, exponent = n;
    return exponent * kLn2High - ((half - (s * (half + r) + exponent * kLn2Low)) - f);
}

// Every NaN in a result is the one that is quiet, positive and without payload.
inline double one_nan(double x) { return std::isnan(x) ? std::numeric_limits<double>::quiet_NaN() : x; }

// The larger, of zeros +0; NaN if either is.
inline double larger(double a, double b) { return std::isnan(a) || a > b || (a == b && std::signbit(b)) ? a : b; }

// What a row has whose largest x, score or lse is not finite: zeros if there is none but minus infinity, else NaN.
inline double without_weights(double top) {
    return top == -std::numeric_limits<double>::infinity() ? 0 : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace attile::reference
