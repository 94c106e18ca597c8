// SPDX-License-Identifier: Apache-2.0
// A sum of 8-bit floats' products as Hopper's tensor cores make it.
#pragma once

#include <attile/attile.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace attile::test {

// 32 at a time and the sum before them, each cut off at 2^-13 of the largest power of two, as is the result. A product's power of two is
// that of its factors' exponents, of which subnormal numbers have the least.
class DroppedSum {
  public:
    DroppedSum(std::int32_t type_a, std::int32_t type_b) : least_a_(least_exponent(type_a)), least_b_(least_exponent(type_b)) {}
    // Goes on from a sum.
    void begin(double sum) { some_[0] = sum; }
    void add(double a, double b) {
        if (a != 0 && b != 0 && std::isfinite(a) && std::isfinite(b))
            exponent_ = std::max(exponent_, std::max(exponent_of(a), least_a_) + std::max(exponent_of(b), least_b_));
        some_[count_++] = a * b;
        if (count_ == kAtOnce) join();
    }
    double value() {
        join();
        return some_[0];
    }

  private:
    static constexpr int kAtOnce = 33, kNone = -1000;
    static int least_exponent(std::int32_t type) { return type == ATTILE_F8_E4M3 ? -6 : -14; }
    // By the bits, since std::ilogb and std::ldexp take most of the time of a sum. Of normal numbers.
    static int exponent_of(double x) {
        std::uint64_t bits;
        std::memcpy(&bits, &x, sizeof bits);
        return static_cast<int>(bits >> 52 & 0x7ff) - 1023;
    }
    static double power_of_two(int exponent) {
        const std::uint64_t bits = static_cast<std::uint64_t>(exponent + 1023) << 52;
        double x;
        std::memcpy(&x, &bits, sizeof x);
        return x;
    }
    void join() {
        double sum = 0;
        if (some_[0] != 0 && std::isfinite(some_[0])) exponent_ = std::max(exponent_, exponent_of(some_[0]));
        const double unit = power_of_two(exponent_ - 13), units = power_of_two(13 - exponent_);
        for (int i = 0; i < count_; ++i) sum += std::isfinite(some_[i]) ? std::trunc(some_[i] * units) * unit : some_[i];
        if (sum != 0 && std::isfinite(sum)) {
            const int exponent = exponent_of(sum) - 13;
            sum = std::trunc(sum * power_of_two(-exponent)) * power_of_two(exponent);
        }
        some_[0] = sum;
        count_ = 1;
        exponent_ = kNone;
    }
    const int least_a_, least_b_;
    double some_[kAtOnce] = {};  // The first is the sum.
    int count_ = 1, exponent_ = kNone;
};

}  // namespace attile::test
