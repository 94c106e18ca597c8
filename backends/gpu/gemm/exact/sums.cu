// SPDX-License-Identifier: Apache-2.0
// Elements that the residues leave undecided, summed in fixed point: a lane group for each, 192 bits at a time, in registers. What is known
// of the lines says which bits there are; for most it is once 192. Of each product the bits in the window are added, so that nothing is
// rounded; carries go on from window to window, and the first lane rounds the whole once. 256 threads, 4.5 KB of shared memory. Bound:
// integer arithmetic.
#include "gemm/exact/end.h"
#include "gemm/exact/lines.h"

namespace attile::gpu::exact {
namespace {

constexpr int kWindowWords = 6, kWindow = 32 * kWindowWords, kSumGroups = kSumThreads / kLanes;
// Products have bits from 2^-2148 to 2^2047, and sums of 2^31 of these 31 more; the last window, and two words for the sign.
constexpr int kSumWords = ((2148 + 2048 + 31) / kWindow + 1) * kWindowWords + 2;

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

// The exact sum, rounded, in the first lane.
template <class T>
ATTILE_LANE_FN double sum_of(const T *a, int64_t a_step, const T *b, int64_t b_step, int64_t depth, int lowest, int highest,
                             uint32_t *words) {
    const int lane = lane_index();
    int64_t carry = 0;
    int count = 0;
#pragma unroll 1
    for (int base = lowest; base < highest; base += kWindow) {
        int64_t sums[kWindowWords] = {};
#pragma unroll 2
        for (int64_t k = lane; k < depth; k += kLanes) add_product(Number(a[k * a_step]), Number(b[k * b_step]), base, sums);
#pragma unroll
        for (int w = 0; w < kWindowWords; ++w) {
            carry += lane_fold(sums[w], [](int64_t x, int64_t y) { return x + y; });
            if (lane == 0) words[count + w] = static_cast<uint32_t>(carry);
            carry >>= 32;
        }
        count += kWindowWords;
    }
    if (lane != 0) return 0;
    words[count] = static_cast<uint32_t>(carry);
    words[count + 1] = static_cast<uint32_t>(carry >> 32);
    return round_words(words, count + 2, lowest);
}

// Where NaN or infinity is in a line, a product is one: the sum is infinite if all of these are infinities of one sign, else NaN.
template <class T>
ATTILE_LANE_FN double special_sum_of(const T *a, int64_t a_step, const T *b, int64_t b_step, int64_t depth) {
    uint32_t kinds = 0;  // 1: infinity, 2: minus infinity; both: NaN.
    for (int64_t k = lane_index(); k < depth; k += kLanes) {
        const Number x(a[k * a_step]), y(b[k * b_step]);
        if (!x.is_special && !y.is_special) continue;
        const bool is_nan = x.is_nan || y.is_nan || (x.significand == 0 || y.significand == 0);
        kinds |= is_nan ? 3u : x.is_negative != y.is_negative ? 2u : 1u;
    }
    const bool is_positive = lane_any((kinds & 1) != 0), is_negative = lane_any((kinds & 2) != 0);
    return double_of(is_positive && is_negative ? kNanBits : kInfinityBits | (is_negative ? kSignBit : 0));
}

template <class T>
__global__ void ATTILE_LAUNCH_BOUNDS(kSumThreads, 2) sum_undecided(const SumParams parameter) {
    const SumParams &p = kernel_parameter(parameter);
    const Block &block = p.block;
    __shared__ uint32_t words[kSumGroups][kSumWords];
    const int own = lane_group_index();
    const uint32_t all = *block.undecided_count;
    int of_depth = 0;
    while (of_depth < 31 && (int64_t{1} << of_depth) < p.k) ++of_depth;
    for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * kSumGroups + static_cast<uint32_t>(own); i < all;
         i += static_cast<uint64_t>(gridDim.x) * kSumGroups) {
        const int64_t number = block.undecided[i], line = number / block.n;
        const Element at = {line / block.m, line % block.m, number - line * block.n};
        const Line &row = block.rows[at.entry * block.row_step + at.row], &column = block.columns[at.entry * block.column_step + at.column];
        const T *const a = static_cast<const T *>(p.a.data) + at.entry * p.a.batch + at.row * p.a.outer;
        const T *const b = static_cast<const T *>(p.b.data) + at.entry * p.b.batch + at.column * p.b.outer;
        double sum;
        if ((row.is_special | column.is_special) != 0) {
            sum = special_sum_of(a, p.a.depth, b, p.b.depth, p.k);
        } else {
            const int lowest = row.last + column.last, highest = row.exponent + column.exponent + 2 + of_depth;
            sum = sum_of(a, p.a.depth, b, p.b.depth, p.k, lowest, highest, words[own]);
        }
        if (lane_index() == 0) store(block.end, at, finish(block.end, at, rounded_product(block.end.alpha, sum)));
    }
}

}  // namespace

SumKernel sum_kernel(bool f64) { return f64 ? sum_undecided<double> : sum_undecided<float>; }

}  // namespace attile::gpu::exact
