// SPDX-License-Identifier: Apache-2.0
// An exact sum of products of doubles, for the elements that nothing faster decides: a number in fixed point, in places of 32 bits of which
// each has 32 more for carries, so that adding touches five places and carries nothing on (after Neal, arXiv 1505.05571).
//
// All is integer arithmetic: no bit depends on the caller's floating-point mode.
#ifndef ATTILE_CPU_EXACT_SUM_H
#define ATTILE_CPU_EXACT_SUM_H

#include <bit>
#include <cstdint>

#include "size.h"

namespace attile::cpu {

class ExactSum {
  public:
    // A number as a double, whatever the caller's mode takes subnormal numbers of float32 for.
    static double widened(double x) { return x; }
    static double widened(float x) {
        const uint32_t bits = std::bit_cast<uint32_t>(x);
        if ((bits & 0x7f800000u) != 0) return static_cast<double>(x);
        const double magnitude = static_cast<double>(static_cast<int32_t>(bits & 0x7fffffu)) * 0x1p-149;
        return bits >> 31 != 0 ? -magnitude : magnitude;
    }

    void add(double x) {
        const uint64_t bits = std::bit_cast<uint64_t>(x);
        const int field = static_cast<int>(bits >> 52 & 0x7ff);
        if (field == 0x7ff) return add_special(bits, kOne);
        const uint64_t number = significand(bits, field);
        if (number == 0) return;
        const int bit = kLastOfSubnormal + field - (field != 0 ? 1 : 0), first = bit >> 5, shift = bit & 31;
        const uint64_t low = number << shift;
        const int64_t sign = static_cast<int64_t>(bits) >> 63;  // 0 or -1
        add_at(first, low & kPlace, sign);
        add_at(first + 1, low >> 32, sign);
        add_at(first + 2, number >> 1 >> (63 - shift), sign);
        count_added(first, first + 2);
    }

    void add_product(double x, double y) {
        const uint64_t x_bits = std::bit_cast<uint64_t>(x), y_bits = std::bit_cast<uint64_t>(y);
        const int x_field = static_cast<int>(x_bits >> 52 & 0x7ff), y_field = static_cast<int>(y_bits >> 52 & 0x7ff);
        if (x_field == 0x7ff || y_field == 0x7ff) return add_special(x_bits, y_bits);
        const uint64_t x_number = significand(x_bits, x_field), y_number = significand(y_bits, y_field);
        const Wide product = static_cast<Wide>(x_number) * y_number;
        if (product == 0) return;
        // The last bit of the product of two subnormal numbers is bit 0.
        const int bit = x_field + y_field - (x_field != 0 ? 1 : 0) - (y_field != 0 ? 1 : 0);
        const int first = bit >> 5, shift = bit & 31;
        const uint64_t low = static_cast<uint64_t>(product), high = static_cast<uint64_t>(product >> 64);
        const uint64_t moved[2] = {low << shift, high << shift | low >> 1 >> (63 - shift)};
        const int64_t sign = static_cast<int64_t>(x_bits ^ y_bits) >> 63;  // 0 or -1
        add_at(first, moved[0] & kPlace, sign);
        add_at(first + 1, moved[0] >> 32, sign);
        add_at(first + 2, moved[1] & kPlace, sign);
        add_at(first + 3, moved[1] >> 32, sign);
        add_at(first + 4, high >> 1 >> (63 - shift), sign);
        count_added(first, first + 4);
    }

    // Another sum, in whose places nothing overflows: they are added one by one after carries of both.
    void add(ExactSum &other) {
        if (other.highest_ >= 0) {
            other.carry();
            if (highest_ >= 0) carry();
            for (int i = other.lowest_; i <= other.highest_; ++i) places_[i] += other.places_[i];
            count_added(other.lowest_, other.highest_);
        }
        is_nan_ = is_nan_ || other.is_nan_;
        infinities_ |= other.infinities_;
    }

    // The sum, rounded once to nearest even; then the object is a sum of nothing again. A sum of 0 is +0, and there is one NaN.
    double take() {
        double result = 0;
        if (is_nan_ || (infinities_ & 3) == 3) {
            result = std::bit_cast<double>(kNan);
        } else if (infinities_ != 0) {
            result = std::bit_cast<double>(infinities_ == 2 ? kInfinity | kSign : kInfinity);
        } else if (highest_ >= 0) {
            result = rounded();
        }
        for (int i = lowest_; i <= highest_; ++i) places_[i] = 0;
        lowest_ = kPlaces;
        highest_ = -1;
        added_ = 0;
        is_nan_ = false;
        infinities_ = 0;
        return result;
    }

    static constexpr uint64_t kNan = 0x7ff8000000000000u;

  private:
    __extension__ using Wide = unsigned __int128;
    static constexpr uint64_t kPlace = 0xffffffffu, kInfinity = 0x7ff0000000000000u, kSign = uint64_t{1} << 63;
    // Products end at bit 2148 + 2048; 64 bits hold the carries of any number of them.
    static constexpr int kPlaces = (2148 + 2048 + 64) / 32 + 3;
    static constexpr int64_t kMostAdded = int64_t{1} << 30;  // each below 2^32
    static constexpr int kLastOfSubnormal = 2148 - 1074;     // bit 0 is the last one of the product of two subnormal numbers
    static constexpr uint64_t kOne = uint64_t{1023} << 52;

    static uint64_t significand(uint64_t bits, int field) {
        return (bits & 0xfffffffffffffu) | static_cast<uint64_t>(field != 0 ? 1 : 0) << 52;
    }

    void add_at(int place, uint64_t value, int64_t sign) { places_[place] += (static_cast<int64_t>(value) ^ sign) - sign; }
    void count_added(int first, int last) {
        lowest_ = first < lowest_ ? first : lowest_;
        highest_ = last > highest_ ? last : highest_;
        if (++added_ == kMostAdded) carry();
    }

    void add_special(uint64_t x, uint64_t y) {
        const uint64_t x_size = x & ~kSign, y_size = y & ~kSign;
        if (x_size > kInfinity || y_size > kInfinity || x_size == 0 || y_size == 0) {
            is_nan_ = true;
        } else {
            infinities_ |= ((x ^ y) & kSign) != 0 ? 2 : 1;
        }
    }

    // Leaves 32 bits in each place but the last one in use, which has the sign.
    void carry() {
        const int last = highest_ + 1 < kPlaces ? highest_ + 1 : highest_;
        for (int i = lowest_; i < last; ++i) {
            const int64_t more = places_[i] >> 32;
            places_[i] &= static_cast<int64_t>(kPlace);
            places_[i + 1] += more;
        }
        highest_ = last;
        added_ = 0;
    }

    double rounded() {
        carry();
        const bool negative = places_[highest_] < 0;
        if (negative) {
            for (int i = lowest_; i <= highest_; ++i) places_[i] = -places_[i];
            carry();
        }
        int top = highest_;
        while (top >= lowest_ && places_[top] == 0) --top;
        if (top < lowest_) return 0;
        const auto place = [&](int i) { return i < lowest_ ? 0 : static_cast<uint64_t>(places_[i]); };
        const int first = 32 * top + 63 - std::countl_zero(place(top));  // the first bit
        // The last bit that stays, not below that of subnormal numbers, 2^-1074.
        const int last = first - 52 > kLastOfSubnormal ? first - 52 : kLastOfSubnormal;
        // 96 bits from the place of the bit behind the last one on, and whether there is anything below.
        const int from = (last - 1) >> 5, shift = (last - 1) & 31;
        const Wide window = static_cast<Wide>(place(from)) | static_cast<Wide>(place(from + 1)) << 32 |
                            static_cast<Wide>(from + 2 <= top ? place(from + 2) : 0) << 64;
        const uint64_t with_half = static_cast<uint64_t>(window >> shift);
        bool more = (place(from) & ((uint64_t{1} << shift) - 1)) != 0;
        for (int i = lowest_; i < from && !more; ++i) more = places_[i] != 0;
        uint64_t kept = with_half >> 1;
        if ((with_half & 1) != 0 && (more || (kept & 1) != 0)) ++kept;
        // A carry out of the significand moves into the exponent by itself.
        const int exponent = last - kLastOfSubnormal;
        if (exponent >= 2046) return std::bit_cast<double>(kInfinity | (negative ? kSign : 0));
        uint64_t bits = kept;
        if (exponent > 0 || kept >= uint64_t{1} << 52) bits += static_cast<uint64_t>(exponent) << 52;
        if (bits > kInfinity) bits = kInfinity;
        return std::bit_cast<double>(bits | (negative ? kSign : 0));
    }

    int64_t places_[kPlaces] = {};
    int64_t added_ = 0;
    int lowest_ = kPlaces, highest_ = -1;
    bool is_nan_ = false;
    int infinities_ = 0;  // 1: a positive one, 2: a negative one
};

}  // namespace attile::cpu

#endif  // ATTILE_CPU_EXACT_SUM_H
