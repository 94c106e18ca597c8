// SPDX-License-Identifier: Apache-2.0
// Numbers as integers in digits of int8.
#pragma once

#include "gemm/exact/numbers.h"

namespace attile::gpu::exact {

// The integer nearest to x 2^scale, ties away from zero, as digits of int8, the lowest first; or, unsigned, more by half of what the digits
// hold, as digits of uint8. Is it another number?
template <bool kUnsigned, int kWords, class T>
ATTILE_LANE_FN bool digits_of(T x, int scale, uint32_t (&digits)[kWords]) {
    const Number number(x);
    const int shift = number.exponent + scale;
    uint64_t low = 0, high = 0;
    bool is_rounded = false;
    if (shift >= 64) {
        high = number.significand << (shift - 64);
    } else if (shift > 0) {
        low = number.significand << shift;
        high = number.significand >> (64 - shift);
    } else if (shift == 0) {
        low = number.significand;
    } else if (shift > -64) {
        low = (number.significand + (uint64_t{1} << (-shift - 1))) >> -shift;
        is_rounded = low << -shift != number.significand;
    } else {
        is_rounded = number.significand != 0;
    }
    if (number.is_negative) {
        low = ~low + 1;
        high = ~high + (low == 0 ? 1 : 0);
    }
    if constexpr (kUnsigned) {
        (kWords > 2 ? high : low) ^= kWords > 2 ? 0x80000000u : uint64_t{1} << 63;
    } else {
        // With 128 added to each byte, none borrows from the next.
        constexpr uint64_t kHalves = 0x8080808080808080u;
        low += kHalves;
        high += kHalves + (low < kHalves ? 1 : 0);
        low ^= kHalves;
        high ^= kHalves;
    }
    digits[0] = static_cast<uint32_t>(low);
    digits[1] = static_cast<uint32_t>(low >> 32);
    if constexpr (kWords > 2) digits[2] = static_cast<uint32_t>(high);
    return is_rounded;
}

}  // namespace attile::gpu::exact
