// SPDX-License-Identifier: Apache-2.0
// Elements that the first bits of their sums leave undecided: a thread for each makes the whole sum of integers once more. Few numbers
// are rounded to integers as a rule, and those of the row and the column are listed: what that has changed of the sum, few products of
// float64 say to some 40 bits, and the interval is 2^40 times as narrow. What is undecided even so is summed in fixed point (sums.cu).
// 128 threads, no shared memory. Bound: latency, of few elements.
#include "gemm/exact/decide.h"
#include "gemm/exact/lines.h"

namespace attile::gpu::exact {
namespace {

// A line's numbers times 2^scale, in float64. What underflows is far less than any integer.
class ScaledLine {
  public:
    ATTILE_LANE_FN ScaledLine(const Numbers &of, bool is_f64, int64_t entry, int64_t line, int scale)
        : of_(of), first_(entry * of.batch + line * of.outer), scaled_(scale), is_f64_(is_f64) {}
    ATTILE_LANE_FN double operator()(uint32_t k) const {
        const int64_t at = first_ + k * of_.depth;
        return scaled_(is_f64_ ? static_cast<const double *>(of_.data)[at] : static_cast<const float *>(of_.data)[at]);
    }

  private:
    const Numbers &of_;
    int64_t first_;
    TimesPower scaled_;
    bool is_f64_;
};

// A number less the nearest integer, ties away from zero: exact.
ATTILE_LANE_FN double beyond_integer(double x) {
    const double size = fabs(x), whole = floor(size), rest = size - whole, beyond = rest >= 0.5 ? rest - 1 : rest;
    return x < 0 ? -beyond : beyond;
}

// The exact sum less the sum of integers is `change`, but for `bound`: what rounding has changed of A, times B, and of B, times the
// integers of A. False where not all that were rounded are listed.
ATTILE_LANE_FN bool find_change(const Listed &p, const Element &at, const Block &block, uint32_t rounded_a, uint32_t rounded_b, int scale_a,
                                int scale_b, double &change, double &bound) {
    if (rounded_a > kMostListed || rounded_b > kMostListed) return false;
    const ScaledLine a(p.a, p.f64 != 0, at.entry, at.row, scale_a), b(p.b, p.f64 != 0, at.entry, at.column, scale_b);
    const uint32_t *const list_a = p.rows + (at.entry * block.row_step + at.row) * kMostListed;
    const uint32_t *const list_b = p.columns + (at.entry * block.column_step + at.column) * kMostListed;
    double sum = 0, size = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < rounded_a; ++i) {
        const double term = beyond_integer(a(list_a[i])) * b(list_a[i]);
        sum += term;
        size += fabs(term);
    }
#pragma unroll 1
    for (uint32_t i = 0; i < rounded_b; ++i) {
        const double of_a = a(list_b[i]), term = (of_a - beyond_integer(of_a)) * beyond_integer(b(list_b[i]));
        sum += term;
        size += fabs(term);
    }
    change = sum;
    bound = size * 0x1p-40 + 1;
    return true;
}

// Adds three words from a limb on, or takes them away.
template <int kLimbs>
ATTILE_LANE_FN void add_words(uint32_t (&limbs)[kLimbs], int first, uint64_t low, uint32_t high, bool is_negative) {
    const uint32_t flip = is_negative ? ~0u : 0;
    uint64_t carry = is_negative ? 1 : 0;
#pragma unroll
    for (int l = 0; l < kLimbs; ++l) {
        const uint32_t add = l == first       ? static_cast<uint32_t>(low)
                             : l == first + 1 ? static_cast<uint32_t>(low >> 32)
                             : l == first + 2 ? high
                                              : 0;
        carry += static_cast<uint64_t>(limbs[l]) + (add ^ flip);
        limbs[l] = static_cast<uint32_t>(carry);
        carry >>= 32;
    }
}
// Adds a number, rounded towards zero, of less than 2^100.
template <int kLimbs>
ATTILE_LANE_FN void add_whole(uint32_t (&limbs)[kLimbs], double x) {
    const Number number(x);
    const int shift = number.exponent;
    if (shift >= 0)
        add_words(limbs, shift >> 5, number.significand << (shift & 31),
                  static_cast<uint32_t>(number.significand >> 32 << (shift & 31) >> 32), number.is_negative);
    else
        add_words(limbs, 0, shift > -64 ? number.significand >> -shift : 0, 0, number.is_negative);
}
// Adds an integer of at least `size`, or takes it away.
template <int kLimbs>
ATTILE_LANE_FN void move(uint32_t (&limbs)[kLimbs], float size, bool up) {
    const int exponent = static_cast<int>(__float_as_uint(size) >> 23) - 127 - 23;  // Of the last bit.
    const uint64_t above = ((__float_as_uint(size) & 0x7fffffu) | 0x800000u) + 1u;
    const uint64_t part = exponent >= 0 ? above << (exponent & 31) : (exponent > -32 ? above >> -exponent : 0) + 1;
    add_words(limbs, exponent >= 0 ? exponent >> 5 : 0, part, 0, !up);
}

// Times 2^exponent, rounded once.
template <int kLimbs>
ATTILE_LANE_FN double round_limbs(const uint32_t (&limbs)[kLimbs], int exponent) {
    uint32_t size[kLimbs];
    const bool is_negative = magnitude_of(limbs, size);
    exponent += 32 * (kLimbs - 2);
#pragma unroll
    for (int i = 0; i + 1 < kLimbs; ++i) {
        const bool is_zero = size[kLimbs - 1] == 0;
#pragma unroll
        for (int l = kLimbs - 1; l > 0; --l) size[l] = is_zero ? size[l - 1] : size[l];
        size[0] = is_zero ? 0 : size[0];
        exponent -= is_zero ? 32 : 0;
    }
    if (size[kLimbs - 1] == 0) return 0;
    const int shift = leading_zeros(size[kLimbs - 1]);
    const uint64_t top = static_cast<uint64_t>(size[kLimbs - 1]) << 32 | size[kLimbs - 2];
    const uint64_t next = static_cast<uint64_t>(size[kLimbs - 3]) << shift;
    bool has_more = static_cast<uint32_t>(next) != 0;
#pragma unroll
    for (int l = 0; l < kLimbs - 3; ++l) has_more = has_more || size[l] != 0;
    return rounded(is_negative, top << shift | next >> 32, has_more, exponent - shift);
}

// The ends of the interval, each rounded by itself.
template <int kLimbs>
ATTILE_LANE_FN void exact_interval(const uint32_t (&limbs)[kLimbs], float error, int scale, double &low, double &high) {
    if (!(error > 0)) {
        low = high = round_limbs(limbs, scale);
        return;
    }
#pragma unroll 1
    for (int i = 0; i < 2; ++i) {
        uint32_t moved[kLimbs];
#pragma unroll
        for (int l = 0; l < kLimbs; ++l) moved[l] = limbs[l];
        move(moved, error, i != 0);
        low = high;
        high = round_limbs(moved, scale);
    }
}

// The sum of residues times weights of one element.
template <int kLimbs>
ATTILE_LANE_FN void weigh(const JoinParams &p, int64_t at, uint64_t (&sums)[kLimbs]) {
#pragma unroll 8
    for (int m = 0; m < p.numbers.moduli; ++m, at += p.plane) {
        uint32_t residue;
        if (p.of_residues != 0) {
            residue = static_cast<const uint8_t *>(p.sums)[at];
        } else {
            residue = static_cast<uint32_t>(static_cast<const int32_t *>(p.sums)[at]) + 0x80000000u;
            residue -= multiply_high(residue, p.numbers.inverse_p[m]) * p.numbers.p[m];
        }
#pragma unroll
        for (int l = 0; l < kLimbs; ++l) sums[l] += static_cast<uint64_t>(residue) * p.numbers.weight[m][l];
    }
}

template <int kLimbs>
ATTILE_LANE_FN bool look_closer(const JoinParams &p, const Element &at, uint64_t &bits) {
    const Block &block = p.block;
    const Side row(block.rows[at.entry * block.row_step + at.row]), column(block.columns[at.entry * block.column_step + at.column]);
    if ((row.is_special | column.is_special) != 0) return false;
    uint64_t sums[kLimbs] = {};
    weigh(p, (at.entry * block.m + at.row) * p.sum_row + at.column, sums);
    uint32_t limbs[kLimbs];
    reduce(p.numbers, sums, limbs);
    float error = change_of(row, column);
    double change = 0, bound = 0, low = 0, high = 0;
    if (error > 0 && find_change(p.listed, at, block, row.rounded, column.rounded, row.scale, column.scale, change, bound)) {
        add_whole(limbs, change);
        error = static_cast<float>(bound + 1) * (1 + 0x1p-18f);
    }
    exact_interval(limbs, error, -row.scale - column.scale, low, high);
    return settles(block.end, at, low, high, bits);
}

template <int kLimbs>
__global__ void ATTILE_LAUNCH_BOUNDS(kRefineThreads, 8) refine_undecided(const JoinParams parameter) {
    const JoinParams &p = kernel_parameter(parameter);
    const Block &block = p.block;
    const uint32_t all = *block.undecided_count;
    for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * kRefineThreads + threadIdx.x; i < all;
         i += static_cast<uint64_t>(gridDim.x) * kRefineThreads) {
        const int64_t number = block.undecided[i], line = number / block.n;
        const Element at = {line / block.m, line % block.m, number - line * block.n};
        uint64_t bits = 0;
        if (!look_closer<kLimbs>(p, at, bits)) continue;
        store(block.end, at, bits);
        block.undecided[i] = kDecided;
    }
}

}  // namespace

RefineKernel refine_kernel(int limbs) {
    return limbs <= 3 ? refine_undecided<3> : limbs == 4 ? refine_undecided<4> : limbs == 5 ? refine_undecided<5> : refine_undecided<6>;
}

}  // namespace attile::gpu::exact
