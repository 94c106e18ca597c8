// SPDX-License-Identifier: Apache-2.0
// Numbers as integers times powers of two, and back, rounded once. All is integer arithmetic.
#pragma once

#include "compiler.h"

namespace attile::gpu::exact {

// Of x other than 0.
ATTILE_LANE_FN int leading_zeros(uint32_t x) {
#if defined(ATTILE_GPU_EMULATED)
    return __builtin_clz(x);
#else
    return __clz(static_cast<int>(x));
#endif
}
ATTILE_LANE_FN int leading_zeros(uint64_t x) {
    const uint32_t high = static_cast<uint32_t>(x >> 32);
    return high != 0 ? leading_zeros(high) : 32 + leading_zeros(static_cast<uint32_t>(x));
}
ATTILE_LANE_FN int trailing_zeros(uint64_t x) { return 63 - leading_zeros(x & (~x + 1)); }
ATTILE_LANE_FN uint32_t multiply_high(uint32_t a, uint32_t b) { return static_cast<uint32_t>(static_cast<uint64_t>(a) * b >> 32); }

ATTILE_LANE_FN uint64_t bits_of(double x) {
    uint64_t bits;
    copy_bits(bits, x);
    return bits;
}
ATTILE_LANE_FN uint32_t bits_of(float x) { return __float_as_uint(x); }
ATTILE_LANE_FN double double_of(uint64_t bits) {
    double x;
    copy_bits(x, bits);
    return x;
}
// 2^exponent, from -1022 to 1023.
ATTILE_LANE_FN double power_of_two(int exponent) { return double_of(static_cast<uint64_t>(exponent + 1023) << 52); }
// Multiplies by 2^exponent, from -2044 to 2046, in two steps.
class TimesPower {
  public:
    explicit ATTILE_LANE_FN TimesPower(int exponent) : once_(power_of_two(exponent / 2)), again_(power_of_two(exponent - exponent / 2)) {}
    ATTILE_LANE_FN double operator()(double x) const { return x * once_ * again_; }

  private:
    double once_, again_;
};

// Compilers may not fuse these with what they meet.
ATTILE_LANE_FN double rounded_product(double x, double y) {
#if defined(ATTILE_GPU_HIP) || defined(ATTILE_GPU_EMULATED)
    double product = x * y;
    schedule_fence(product);
    return product;
#else
    return __dmul_rn(x, y);
#endif
}
ATTILE_LANE_FN double rounded_sum(double x, double y) {
#if defined(ATTILE_GPU_HIP) || defined(ATTILE_GPU_EMULATED)
    return x + y;
#else
    return __dadd_rn(x, y);
#endif
}
ATTILE_LANE_FN double rounded_quotient(double x, double y) {
#if defined(ATTILE_GPU_HIP) || defined(ATTILE_GPU_EMULATED)
    return x / y;
#else
    return __ddiv_rn(x, y);
#endif
}

template <class T>
struct FormatOf;
template <>
struct FormatOf<double> {
    using Bits = uint64_t;
    static constexpr int kFraction = 52, kLargestField = 0x7ff, kLast = -1074;  // The exponent of the last bit of subnormal numbers.
};
template <>
struct FormatOf<float> {
    using Bits = uint32_t;
    static constexpr int kFraction = 23, kLargestField = 0xff, kLast = -149;
};

// Significand times 2^exponent, of infinity and NaN of no meaning.
struct Number {
    uint64_t significand;
    int exponent;
    bool is_negative, is_special, is_nan;

    template <class T>
    explicit ATTILE_LANE_FN Number(T x) {
        using Format = FormatOf<T>;
        const auto bits = bits_of(x);
        const int field = static_cast<int>(bits >> Format::kFraction) & Format::kLargestField;
        const uint64_t fraction = bits & ((typename Format::Bits{1} << Format::kFraction) - 1);
        significand = fraction | static_cast<uint64_t>(field != 0 ? 1 : 0) << Format::kFraction;
        exponent = (field != 0 ? field - 1 : 0) + Format::kLast;
        is_negative = bits >> (8 * sizeof(T) - 1) != 0;
        is_special = field == Format::kLargestField;
        is_nan = is_special && fraction != 0;
    }
};

inline constexpr uint64_t kNanBits = 0x7ff8000000000000u, kInfinityBits = 0x7ff0000000000000u, kSignBit = uint64_t{1} << 63;

// The double nearest to a number of 64 bits, the first of them set, times 2^exponent, plus a little less than its last bit if there is
// more. Ties go to even.
ATTILE_LANE_FN double rounded(bool is_negative, uint64_t number, bool has_more, int exponent) {
    constexpr int kLast = FormatOf<double>::kLast;
    const int shift = exponent + 11 > kLast ? 11 : kLast - exponent;  // Bits that go.
    uint64_t bits = 0;
    if (shift <= 64) {
        const uint64_t with_half = number >> (shift - 1), below = number & ((uint64_t{1} << (shift - 1)) - 1);
        bits = with_half >> 1;
        if ((with_half & 1) != 0 && (has_more || below != 0 || (bits & 1) != 0)) ++bits;
    }
    // A carry out of the significand moves into the exponent by itself, also from subnormal to normal.
    const int field = exponent + shift - kLast;
    if (bits >= uint64_t{1} << 52) bits += static_cast<uint64_t>(field) << 52;
    if (field > 2046 || bits > kInfinityBits) bits = kInfinityBits;
    return double_of(bits | (is_negative ? kSignBit : 0));
}

}  // namespace attile::gpu::exact
