// SPDX-License-Identifier: Apache-2.0
// A sum of doubles and of their products that is rounded once, so that it can judge float64 as well: what each step rounds off is kept and
// added at the end (Ogita, Rump and Oishi, "Accurate sum and dot product", 2005). Infinities and NaN come out as of a plain sum.
#pragma once

#include <cmath>

namespace attile::reference {

class Sum {
  public:
    void add(double x) {
        const double before = sum_;
        sum_ += x;
        const double added = sum_ - before;
        rest_ += (before - (sum_ - added)) + (x - added);
    }
    void add_product(double x, double y) {
        const double product = x * y;
        rest_ += std::fma(x, y, -product);
        add(product);
    }
    void add_product(double x, const Sum &y) {
        add_product(x, y.sum_);
        rest_ += x * y.rest_;
    }
    double value() const { return std::isfinite(sum_) && std::isfinite(rest_) ? sum_ + rest_ : sum_; }

  private:
    double sum_ = 0;
    double rest_ = 0;  // of no meaning once something has overflowed
};

}  // namespace attile::reference
