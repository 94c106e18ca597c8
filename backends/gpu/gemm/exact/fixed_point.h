// SPDX-License-Identifier: Apache-2.0
// Sums in fixed point by threads together, 192 bits at a time, in registers: of each addend the bits in the window are added, so that
// nothing is rounded; carries go on from window to window, and one thread rounds the whole once.
#pragma once

#include "gemm/exact/numbers.h"

namespace attile::gpu::exact {

inline constexpr int kWindowWords = 6, kWindow = 32 * kWindowWords;
// Products have bits from 2^-2148 to 2^2047, and sums of 2^31 of these 31 more; the last window, and two words for the sign.
inline constexpr int kSumWords = ((2148 + 2048 + 31) / kWindow + 1) * kWindowWords + 2;

// Adds those bits of a product that lie in the window, whose first bit is 2^base, each word's to a sum of its own.
ATTILE_LANE_FN void add_product(const Number &x, const Number &y, int base, int64_t (&sums)[kWindowWords]) {
    const int offset = x.exponent + y.exponent - base;
    if (offset >= kWindow || offset <= -128 || x.significand == 0 || y.significand == 0) return;
    const uint64_t x_low = x.significand & 0xffffffffu, x_high = x.significand >> 32;
    const uint64_t y_low = y.significand & 0xffffffffu, y_high = y.significand >> 32;
    const uint64_t first = x_low * y_low, middle = (first >> 32) + x_low * y_high + x_high * y_low;  // Below 2^55.
    const uint64_t last = x_high * y_high + (middle >> 32);
    const uint32_t product[5] = {static_cast<uint32_t>(first), static_cast<uint32_t>(middle), static_cast<uint32_t>(last),
                                 static_cast<uint32_t>(last >> 32), 0};
    const int from_word = (offset + 128) / 32 - 4, shift = (offset + 128) % 32;
    uint32_t moved[5];
#pragma unroll
    for (int i = 0; i < 5; ++i)
        moved[i] = static_cast<uint32_t>((static_cast<uint64_t>(product[i]) << 32 | (i > 0 ? product[i - 1] : 0u)) << shift >> 32);
    const bool is_negative = x.is_negative != y.is_negative;
#pragma unroll
    for (int w = 0; w < kWindowWords; ++w) {
        uint32_t word = 0;
#pragma unroll
        for (int i = 0; i < 5; ++i) word = w - i == from_word ? moved[i] : word;
        sums[w] += is_negative ? -static_cast<int64_t>(word) : static_cast<int64_t>(word);
    }
}

// Rounds an integer in two's complement times 2^exponent. Leaves its magnitude in its place.
ATTILE_LANE_FN double round_words(uint32_t *words, int count, int exponent) {
    const bool is_negative = words[count - 1] >> 31 != 0;
    const uint32_t flip = is_negative ? ~0u : 0;
    uint64_t carry = is_negative ? 1 : 0;
    int top = -1;
    for (int i = 0; i < count; ++i) {
        carry += words[i] ^ flip;
        words[i] = static_cast<uint32_t>(carry);
        carry >>= 32;
        if (words[i] != 0) top = i;
    }
    if (top < 0) return 0;
    const auto word = [&](int i) { return i >= 0 ? words[i] : 0u; };
    const int shift = leading_zeros(word(top));
    const uint64_t high = static_cast<uint64_t>(word(top)) << 32 | word(top - 1), next = static_cast<uint64_t>(word(top - 2)) << shift;
    bool has_more = static_cast<uint32_t>(next) != 0;
    for (int i = 0; i < top - 2 && !has_more; ++i) has_more = words[i] != 0;
    return rounded(is_negative, high << shift | next >> 32, has_more, exponent + 32 * (top - 1) - shift);
}

// Adds those bits of a number that lie in the window, likewise.
ATTILE_LANE_FN void add_number(const Number &x, int base, int64_t (&sums)[kWindowWords]) {
    const int offset = x.exponent - base;
    if (offset >= kWindow || offset <= -64 || x.significand == 0) return;
    const int from_word = (offset + 64) / 32 - 2, shift = (offset + 64) % 32;
    const uint64_t high = x.significand >> 1 >> (63 - shift), low = x.significand << shift;
    const uint32_t moved[3] = {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high)};
#pragma unroll
    for (int w = 0; w < kWindowWords; ++w) {
        uint32_t word = 0;
#pragma unroll
        for (int i = 0; i < 3; ++i) word = w - i == from_word ? moved[i] : word;
        sums[w] += x.is_negative ? -static_cast<int64_t>(word) : static_cast<int64_t>(word);
    }
}

// The sum of what add(base, sums) adds for each window from 2^lowest to before 2^highest, rounded, in the one thread that `rounds`, which
// needs kSumWords words. fold(sums) leaves the sums of all threads in each.
template <class Add, class Fold>
ATTILE_LANE_FN double window_sum(int lowest, int highest, bool rounds, uint32_t *words, Add add, Fold fold) {
    int64_t carry = 0;
    int count = 0;
#pragma unroll 1
    for (int base = lowest; base < highest; base += kWindow) {
        int64_t sums[kWindowWords] = {};
        add(base, sums);
        fold(sums);
#pragma unroll
        for (int w = 0; w < kWindowWords; ++w) {
            carry += sums[w];
            if (rounds) words[count + w] = static_cast<uint32_t>(carry);
            carry >>= 32;
        }
        count += kWindowWords;
    }
    if (!rounds) return 0;
    words[count] = static_cast<uint32_t>(carry);
    words[count + 1] = static_cast<uint32_t>(carry >> 32);
    return round_words(words, count + 2, lowest);
}

}  // namespace attile::gpu::exact
