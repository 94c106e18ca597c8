// SPDX-License-Identifier: Apache-2.0
// A sum of products of doubles without any rounding but the last: a number in fixed point, wide enough for every product (Kulisch).
//
// All is integer arithmetic, so that nothing depends on the rounding or flush-to-zero mode that the host program runs in.
#pragma once

#include <attile/attile_backend.h>

#include <array>
#include <bit>
#include <cstdint>

namespace attile::reference {

class ExactSum {
  public:
    void add(double x) { add_product(x, 1); }
    void add_product(double x, double y) {
        const Number a(x), b(y);
        const bool negative = a.negative != b.negative;
        if (a.is_nan || b.is_nan || (a.is_infinite && b.is_zero()) || (a.is_zero() && b.is_infinite)) {
            is_nan_ = true;
        } else if (a.is_infinite || b.is_infinite) {
            (negative ? has_minus_infinity_ : has_plus_infinity_) = true;
        } else {
            add(a.significand, b.significand, a.exponent + b.exponent, negative);
        }
    }

    // The sum, rounded once to nearest even. A sum of 0 is +0, and there is one NaN.
    double value() const {
        if (is_nan_ || (has_plus_infinity_ && has_minus_infinity_)) return std::bit_cast<double>(0x7ff8000000000000ull);
        if (has_plus_infinity_ || has_minus_infinity_) return std::bit_cast<double>(sign_bit(has_minus_infinity_) | 0x7ff0000000000000ull);
        Limbs magnitude = limbs_;
        const bool negative = magnitude.back() >> 63 != 0;
        if (negative) negate(magnitude);
        int top = kBits - 1;
        while (top >= 0 && magnitude[static_cast<std::size_t>(top / 64)] == 0) top -= 64;
        while (top >= 0 && !bit(magnitude, top)) --top;
        if (top < 0) return 0.0;
        // The last bit that stays: 52 below the first, but never below the last bit of subnormal numbers.
        constexpr int kLastOfSubnormal = kLowest - 1074;
        const int last = top - 52 > kLastOfSubnormal ? top - 52 : kLastOfSubnormal;
        std::uint64_t kept = 0;
        for (int i = top; i >= last; --i) kept = kept << 1 | (bit(magnitude, i) ? 1u : 0u);
        bool below_half = false;
        for (int i = 0; i < last - 1 && !below_half;) {
            const bool is_limb = i % 64 == 0 && i + 64 <= last - 1;
            below_half = is_limb ? magnitude[static_cast<std::size_t>(i / 64)] != 0 : bit(magnitude, i);
            i += is_limb ? 64 : 1;
        }
        if (bit(magnitude, last - 1) && (below_half || (kept & 1) != 0)) ++kept;
        // Units of 2^(last - kLowest): a carry out of the significand moves into the exponent by itself, also from subnormal to normal.
        const int exponent = last - kLastOfSubnormal;
        std::uint64_t bits = kept;
        if (kept >= 1ull << 52) bits += static_cast<std::uint64_t>(exponent) << 52;
        if (bits > 0x7ff0000000000000ull || exponent > 2046) bits = 0x7ff0000000000000ull;
        return std::bit_cast<double>(sign_bit(negative) | bits);
    }

  private:
    static constexpr int kLimbs = 68, kBits = 64 * kLimbs;
    // Bit i stands for 2^(i - kLowest). The least product is 2^-2148, the largest below 2^2048, and 2^63 of those fit.
    static constexpr int kLowest = 2148;
    static_assert(kBits >= kLowest + 2048 + 63 + 1);
    using Limbs = std::array<std::uint64_t, kLimbs>;

    struct Number {
        explicit Number(double x) {
            const std::uint64_t bits = std::bit_cast<std::uint64_t>(x), fraction = bits & 0xfffffffffffffull;
            const int field = static_cast<int>(bits >> 52 & 0x7ff);
            negative = bits >> 63 != 0;
            is_nan = field == 0x7ff && fraction != 0;
            is_infinite = field == 0x7ff && fraction == 0;
            significand = field == 0 ? fraction : fraction | 1ull << 52;
            exponent = (field == 0 ? 1 : field) - 1075;  // of its last bit
        }
        bool is_zero() const { return significand == 0; }
        std::uint64_t significand;
        int exponent;
        bool negative, is_nan, is_infinite;
    };

    static bool bit(const Limbs &limbs, int i) { return (limbs[static_cast<std::size_t>(i / 64)] >> (i % 64) & 1) != 0; }
    static std::uint64_t sign_bit(bool negative) { return negative ? 1ull << 63 : 0; }

    static void negate(Limbs &limbs) {
        bool carry = true;
        for (std::uint64_t &limb : limbs) {
            limb = ~limb + (carry ? 1 : 0);
            carry = carry && limb == 0;
        }
    }

    // Adds or subtracts x y 2^exponent: four products of 32 bits by 32, each added where it belongs.
    void add(std::uint64_t x, std::uint64_t y, int exponent, bool negative) {
        const std::uint64_t x_half[2] = {x & 0xffffffffu, x >> 32}, y_half[2] = {y & 0xffffffffu, y >> 32};
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j) add_at(x_half[i] * y_half[j], exponent + kLowest + 32 * (i + j), negative);
    }

    void add_at(std::uint64_t number, int position, bool negative) {
        const int shift = position % 64;
        std::size_t limb = static_cast<std::size_t>(position / 64);
        const std::uint64_t parts[2] = {number << shift, shift == 0 ? 0 : number >> (64 - shift)};
        bool carry = false;
        for (int part = 0; limb < kLimbs && (part < 2 || carry); ++part, ++limb) {
            const std::uint64_t other = part < 2 ? parts[part] : 0, before = limbs_[limb];
            const std::uint64_t after = negative ? before - other : before + other;
            const std::uint64_t last = negative ? after - (carry ? 1 : 0) : after + (carry ? 1 : 0);
            carry = negative ? after > before || last > after : after < before || last < after;
            limbs_[limb] = last;
        }
    }

    Limbs limbs_{};  // two's complement
    bool is_nan_ = false, has_plus_infinity_ = false, has_minus_infinity_ = false;
};

struct Entry;

inline bool is_exact(const attile_launch &launch) { return (launch.flags & ATTILE_FLAG_EXACT_PRODUCTS) != 0; }

// The operations with EXACT_PRODUCTS.
void multiply_exactly(const attile_gemm_problem *p);
void reduce_exactly(const attile_reduce_problem *p);
void softmax_exactly(const attile_softmax_problem *p);
void merge_exactly(const attile_attention_merge_problem *p);
// Row i of query head h, with room for a score of each key.
void attend_exactly(const attile_attention_problem *p, const Entry &entry, std::int64_t h, std::int64_t i, double *weight);

}  // namespace attile::reference
