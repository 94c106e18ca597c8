// SPDX-License-Identifier: Apache-2.0
// A sum of 8-bit floats' products as Hopper's tensor cores make it.
#pragma once

#include <attile/attile.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

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
            exponent_ = std::max(exponent_, std::max(std::ilogb(a), least_a_) + std::max(std::ilogb(b), least_b_));
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
    void join() {
        double sum = 0;
        if (some_[0] != 0 && std::isfinite(some_[0])) exponent_ = std::max(exponent_, std::ilogb(some_[0]));
        const double unit = std::ldexp(1.0, exponent_ - 13);
        for (int i = 0; i < count_; ++i) sum += std::isfinite(some_[i]) ? std::trunc(some_[i] / unit) * unit : some_[i];
        if (sum != 0 && std::isfinite(sum)) {
            const double last = std::ldexp(1.0, std::ilogb(sum) - 13);
            sum = std::trunc(sum / last) * last;
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
