// SPDX-License-Identifier: Apache-2.0
// Sizes of memory: counts and bytes whose sums and products cannot wrap, and the cutting of scratch memory by them.
//
// Extents are the caller's and may be anything that 63 bits hold, where a stride is 0 or in a query without memory behind them. A size
// that is beyond all memory stays there, and so nobody gets a workspace of that size.
#ifndef ATTILE_CPU_SIZE_H
#define ATTILE_CPU_SIZE_H

#include <cstdint>

namespace attile::cpu {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
constexpr int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

// 0 .. kMost, which stands for itself and all beyond. A little below 2^62: what is added to it by who hands out memory does not wrap.
class Size {
  public:
    static constexpr int64_t kMost = (int64_t{1} << 62) - (int64_t{1} << 32);

    constexpr Size(int64_t value) : value_(value < kMost ? value : kMost) {}
    constexpr int64_t value() const { return value_; }
    constexpr Size rounded_up(int64_t unit) const { return value_ > kMost - unit ? Size(kMost) : Size(round_up(value_, unit)); }

    friend constexpr Size operator+(Size a, Size b) { return Size(a.value_ + b.value_); }
    friend constexpr Size operator*(Size a, Size b) {
        int64_t product = 0;
        return __builtin_mul_overflow(a.value_, b.value_, &product) ? Size(kMost) : Size(product);
    }

  private:
    int64_t value_;
};

// A number for a report, or the largest there.
constexpr int32_t reported(int64_t value) { return static_cast<int32_t>(least(value, INT32_MAX)); }

// The product of some extents and an element's bytes, in whole units of 256.
template <class T, class... Extents>
constexpr Size bytes_for(Extents... extents) {
    return (Size(static_cast<int64_t>(sizeof(T))) * ... * Size(extents)).rounded_up(256);
}

// A bump allocator over a task's scratch memory; with none, it only counts.
class Cutter {
  public:
    explicit Cutter(char *memory) : memory_(memory) {}
    // An array of as many elements as the product of the extents.
    template <class T, class... Extents>
    T *cut(Extents... extents) {
        char *piece = memory_ == nullptr ? nullptr : memory_ + used_.value();
        used_ = used_ + bytes_for<T>(extents...);
        return reinterpret_cast<T *>(piece);
    }
    int64_t used() const { return used_.value(); }

  private:
    char *memory_;
    Size used_ = 0;
};

}  // namespace attile::cpu

#endif  // ATTILE_CPU_SIZE_H
