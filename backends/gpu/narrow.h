// SPDX-License-Identifier: Apache-2.0
// Numbers of 4 bits as floats, and the number of 8 or 4 bits that is nearest to a float. Integer arithmetic and one addition: the same bits
// on every device.
#pragma once

#include "eight_bits.h"

namespace attile::gpu {

// Two numbers, the first in the lower half.
struct I4 {
    uint8_t pair;
};
template <class T>
inline constexpr int kBitsOf = 8 * sizeof(T);
template <>
inline constexpr int kBitsOf<I4> = 4;

// The lower four bits of a word, in two's complement, and as they are.
ATTILE_LANE_FN float from_i4(uint32_t bits) { return static_cast<float>(static_cast<int32_t>((bits & 15u) ^ 8u) - 8); }
ATTILE_LANE_FN float from_u4(uint32_t bits) { return static_cast<float>(bits & 15u); }

// A float of at most 2^22, rounded to an integer, of two as near the even one: the lower bits of the word.
ATTILE_LANE_FN uint32_t nearest_integer(float x) { return __float_as_uint(x + 0x1.8p23f); }

// A format of 8 bits with an exponent.
struct FloatFormat {
    float largest;      // Its largest number,
    float least;        // its smallest normal one,
    float units;        // 2^23 of its smallest one, which a sum counts in its lowest bits,
    uint32_t shift;     // bits of a float's fraction that it has not,
    uint32_t exponent;  // how much larger a float's exponent is, in place,
    uint32_t nan;       // and the number that stands for NaN.
};
constexpr FloatFormat kE4m3Format = {448.0f, 0x1p-6f, 0x1p14f, 20, 120u << 3, 0x7f};
constexpr FloatFormat kE5m2Format = {57344.0f, 0x1p-14f, 0x1p7f, 21, 112u << 2, 0x7e};

// The number nearest to a magnitude, of two as near the even one. `magnitude` is at most the largest.
ATTILE_LANE_FN uint32_t nearest_magnitude(const FloatFormat &format, float magnitude) {
    const uint32_t bits = __float_as_uint(magnitude), half = (1u << format.shift >> 1) - 1;
    const uint32_t normal = ((bits + half + (bits >> format.shift & 1u)) >> format.shift) - format.exponent;
    const uint32_t small = __float_as_uint(magnitude + format.units) - __float_as_uint(format.units);
    return magnitude < format.least ? small : normal;
}

}  // namespace attile::gpu
