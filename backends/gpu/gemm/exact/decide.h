// SPDX-License-Identifier: Apache-2.0
// From residues times weights to an element of D: less a multiple of the product of the moduli they are the sum of integers. What rounding
// to integers has changed is bounded; where both ends of that interval become the same element of D, this is it. Where
// not, refine.cu looks closer.
#pragma once

#include "gemm/exact/end.h"
#include "vec.h"

namespace attile::gpu::exact {

// A sum of residues times weights in limbs with carries, as an integer in two's complement. Residues are those of a number larger by 2^31.
template <int kLimbs>
ATTILE_LANE_FN void reduce(const JoinNumbers &numbers, const uint64_t (&sums)[kLimbs], uint32_t (&limbs)[kLimbs]) {
    uint64_t carry = 0;
#pragma unroll
    for (int l = 0; l < kLimbs; ++l) {
        carry += sums[l];
        limbs[l] = static_cast<uint32_t>(carry);
        carry >>= 32;
    }
    // The integer is less than 0.42 of the product, so that rounding finds the multiple.
    const float top = (static_cast<float>(static_cast<uint32_t>(carry)) * 0x1p32f + static_cast<float>(limbs[kLimbs - 1])) +
                      static_cast<float>(limbs[kLimbs - 2]) * 0x1p-32f;
    const uint32_t multiple = static_cast<uint32_t>(top * numbers.inverse + 0.5f);
    uint64_t taken = uint64_t{1} << 31, borrow = 0;
#pragma unroll
    for (int l = 0; l < kLimbs; ++l) {
        taken += static_cast<uint64_t>(multiple) * numbers.product[l];
        const uint64_t rest = limbs[l] - (taken & 0xffffffffu) - borrow;
        limbs[l] = static_cast<uint32_t>(rest);
        borrow = rest >> 63;
        taken >>= 32;
    }
}

// The magnitude of a number in two's complement. Is it negative?
template <int kLimbs>
ATTILE_LANE_FN bool magnitude_of(const uint32_t (&limbs)[kLimbs], uint32_t (&size)[kLimbs]) {
    const bool is_negative = limbs[kLimbs - 1] >> 31 != 0;
    const uint32_t flip = is_negative ? ~0u : 0;
    uint64_t carry = is_negative ? 1 : 0;
#pragma unroll
    for (int l = 0; l < kLimbs; ++l) {
        carry += limbs[l] ^ flip;
        size[l] = static_cast<uint32_t>(carry);
        carry >>= 32;
    }
    return is_negative;
}

// The 2-norm of what rounding to integers has changed of a line, at most but for its own rounding.
ATTILE_LANE_FN float change_of(uint32_t rounded) { return 0.5f * sqrtf(static_cast<float>(rounded)); }

// What an integer times 2^scale is at least and at most, give or take an error, from its first 64 bits: bounds, rounded, that have no ties.
// False where these bits do not tell: the number is 0, subnormal or infinite, or the interval reaches another binade.
template <int kLimbs>
ATTILE_LANE_FN bool near_interval(const uint32_t (&limbs)[kLimbs], float error, int scale, double &low, double &high) {
    uint32_t size[kLimbs];
    const bool is_negative = magnitude_of(limbs, size);
    int exponent = 32 * (kLimbs - 2);
#pragma unroll 1
    while (size[kLimbs - 1] == 0 && exponent > -32) {
#pragma unroll
        for (int l = kLimbs - 1; l > 0; --l) size[l] = size[l - 1];
        size[0] = 0;
        exponent -= 32;
    }
    if (size[kLimbs - 1] == 0) return false;
    const int shift = leading_zeros(size[kLimbs - 1]);
    const uint64_t pair = static_cast<uint64_t>(size[kLimbs - 1]) << 32 | size[kLimbs - 2];
    const uint64_t top = pair << shift | static_cast<uint64_t>(size[kLimbs - 3]) << shift >> 32;  // Less than one below the number.
    exponent -= shift;
    uint64_t beyond = 1;  // More than the error, in units of top's last bit.
    if (error > 0) {
        const int more = static_cast<int>(__float_as_uint(error) >> 23) - 127 - 23 - exponent;
        const uint64_t above = ((__float_as_uint(error) & 0x7fffffu) | 0x800000u) + 1u;
        if (more > 36) return false;
        beyond += more >= 0 ? above << more : (above >> (more > -32 ? -more : 32)) + 1;
    }
    const uint64_t first = top - beyond, last = top + beyond;
    const int field = exponent + scale + 63 + 1023;
    if (first >> 63 == 0 || first > top || last < top || field < 1 || field > 2045) return false;
    const auto round = [&](uint64_t number) {
        const uint64_t bits = (number >> 11) + (number >> 10 & 1) + (static_cast<uint64_t>(field - 1) << 52);
        return double_of(bits | (is_negative ? kSignBit : 0));
    };
    low = round(first);
    high = round(last);
    return true;
}

// What is known of a row or a column.
struct Side {
    int32_t scale, is_special;
    uint32_t rounded;
    float size, change;
    explicit ATTILE_LANE_FN Side(const Line &line) {
        const auto words = load_vec_const<4>(reinterpret_cast<const uint32_t *>(&line));
        scale = static_cast<int32_t>(words[0]);
        is_special = static_cast<int32_t>(words[1]);
        rounded = words[2];
        size = __uint_as_float(words[3]);
        change = rounded == 0 ? 0.0f : change_of(rounded);
    }
};

// A bound of what rounding to integers has changed.
ATTILE_LANE_FN float change_of(const Side &row, const Side &column) {
    return (row.change * column.size + row.size * column.change) * (1 + 0x1p-18f);
}

// Do both ends of an interval become the same element of D? All that follows the sum is monotone in it.
ATTILE_LANE_FN bool settles(const End &end, const Element &at, double low, double high, uint64_t &bits) {
    if (end.is_plain != 0) {  // Of finite sums.
        const bool is_f32 = end.d.dtype == ATTILE_F32;
        bits = is_f32 ? bits_of(static_cast<float>(low)) : bits_of(low);
        return bits == (is_f32 ? bits_of(static_cast<float>(high)) : bits_of(high));
    }
    bits = finish(end, at, rounded_product(end.alpha, low));
    return bits_of(low) == bits_of(high) || (bits == finish(end, at, rounded_product(end.alpha, high)) && !is_nan_of(end, bits));
}

// The bits of an element of D, if the first bits of its sum tell.
template <int kLimbs>
ATTILE_LANE_FN bool decide(const End &end, const JoinNumbers &numbers, const Element &at, const Side &row, const Side &column,
                           const uint64_t (&sums)[kLimbs], uint64_t &bits) {
    if ((row.is_special | column.is_special) != 0) return false;
    uint32_t limbs[kLimbs];
    reduce(numbers, sums, limbs);
    double low = 0, high = 0;
    return near_interval(limbs, change_of(row, column), -row.scale - column.scale, low, high) && settles(end, at, low, high, bits);
}

// Leaves an element to those that look closer.
ATTILE_LANE_FN void list_undecided(const Block &block, const Element &at) {
    block.undecided[atomicAdd(block.undecided_count, 1u)] = static_cast<uint32_t>((at.entry * block.m + at.row) * block.n + at.column);
}

}  // namespace attile::gpu::exact
