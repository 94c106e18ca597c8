// SPDX-License-Identifier: Apache-2.0
// Elements that the residues leave undecided, summed in fixed point: a lane group for each, 192 bits at a time, in registers. What is known
// of the lines says which bits there are; for most it is once 192. Of each product the bits in the window are added, so that nothing is
// rounded; carries go on from window to window, and the first lane rounds the whole once. 256 threads, 4.5 KB of shared memory. Bound:
// integer arithmetic.
#include "gemm/exact/end.h"
#include "gemm/exact/fixed_point.h"
#include "gemm/exact/lines.h"

namespace attile::gpu::exact {
namespace {

constexpr int kSumGroups = kSumThreads / kLanes, kAtOnce = 4;

// The exact sum, rounded, in the first lane.
template <class T>
ATTILE_LANE_FN double sum_of(const T *a, int64_t a_step, const T *b, int64_t b_step, int64_t depth, int lowest, int highest,
                             uint32_t *words) {
    const int lane = lane_index();
    return window_sum(
        lowest, highest, lane == 0, words,
        [&](int base, int64_t(&sums)[kWindowWords]) {
            for (int64_t k = lane; k < depth; k += kAtOnce * kLanes) {
                T x[kAtOnce], y[kAtOnce];  // All on their way together.
#pragma unroll
                for (int i = 0; i < kAtOnce; ++i) {
                    const int64_t at = k + i * kLanes;
                    x[i] = at < depth ? a[at * a_step] : T(0);
                    y[i] = at < depth ? b[at * b_step] : T(0);
                }
#pragma unroll
                for (int i = 0; i < kAtOnce; ++i) add_product(Number(x[i]), Number(y[i]), base, sums);
            }
        },
        [](int64_t(&sums)[kWindowWords]) {
#pragma unroll
            for (int64_t &sum : sums) sum = lane_fold(sum, [](int64_t x, int64_t y) { return x + y; });
        });
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
    // Up to a lane's number of the list at a time, of which few are left.
    const uint64_t groups = static_cast<uint64_t>(gridDim.x) * kSumGroups;
    const uint32_t each = static_cast<uint32_t>(min((all + groups - 1) / groups, static_cast<uint64_t>(kLanes)));
    uint32_t listed = kDecided, left = 0;
    for (uint64_t next = (static_cast<uint64_t>(blockIdx.x) * kSumGroups + static_cast<uint32_t>(own)) * each;;) {
        while (left == 0 && next < all) {
            const uint32_t lane = static_cast<uint32_t>(lane_index());
            listed = lane < each && next + lane < all ? block.undecided[next + lane] : kDecided;
            left = lane_ballot(listed != kDecided);
            next += groups * each;
        }
        if (left == 0) break;
        const int64_t number = shuffle(listed, trailing_zeros(left)), line = number / block.n;
        left &= left - 1;
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
