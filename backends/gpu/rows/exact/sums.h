// SPDX-License-Identifier: Apache-2.0
// Sums of the numbers and products of a row in fixed point, by kWidth threads: a lane group, or a block.
#pragma once

#include "gemm/exact/fixed_point.h"
#include "rows/exact/steps.h"
#include "rows/rows.h"

namespace attile::gpu::exact {

// Of a block: what threads that share a row pass through it, and the words of each sum.
template <int kWidth>
struct RowMemory {
    int64_t folds[kWidth > kLanes ? kWindowWords *(kWidth / kLanes) : 1];
    double result;
    uint32_t words[kRowThreads / kWidth][kSumWords];
};

// A thread among those that share a row.
template <int kWidth>
class RowThreads {
  public:
    static constexpr int kWidthOfRow = kWidth, kRows = kRowThreads / kWidth;  // Rows of a block at a time.

    explicit ATTILE_LANE_FN RowThreads(RowMemory<kWidth> &memory) : memory_(memory) {}
    ATTILE_LANE_FN int index() const { return static_cast<int>(threadIdx.x) % kWidth; }
    ATTILE_LANE_FN int row() const { return static_cast<int>(threadIdx.x) / kWidth; }
    ATTILE_LANE_FN bool is_first() const { return index() == 0; }

    template <class Value, class Combine>
    ATTILE_LANE_FN Value fold(Value value, Combine combine) const {
        static_assert(sizeof(Value) <= sizeof(int64_t), "a place for each lane group");
        value = fold_lanes<kLanes / 2>(value, combine);
        if constexpr (kWidth > kLanes) {
            Value *const shared = reinterpret_cast<Value *>(memory_.folds);
            __syncthreads();  // The last round's readers are done.
            if (lane_index() == 0) shared[lane_group_index()] = value;
            __syncthreads();
            value = shared[0];
#pragma unroll
            for (int group = 1; group < kWidth / kLanes; ++group) value = combine(value, shared[group]);
        }
        return value;
    }
    // The rounded sum, in all threads. `kinds`: 1 if a positive infinity is among what is added, 2 if a negative one, 3 if NaN.
    template <class Add>
    ATTILE_LANE_FN double sum(int lowest, int highest, uint32_t kinds, Add add) const {
        kinds = fold(kinds, [](uint32_t a, uint32_t b) { return a | b; });
        if (kinds != 0) return double_of(kinds == 3 ? kNanBits : kInfinityBits | (kinds == 2 ? kSignBit : 0));
        const double rounded = window_sum(lowest, highest, is_first(), memory_.words[row()], add, [&](int64_t(&sums)[kWindowWords]) {
            row_fold<kWidth>(sums, memory_.folds, [](int64_t a, int64_t b) { return a + b; });
        });
        if constexpr (kWidth <= kLanes) return shuffle(rounded, 0);
        __syncthreads();
        if (is_first()) memory_.result = rounded;
        __syncthreads();
        return memory_.result;
    }

  private:
    // Not lane_fold(): AMD's compilers do not unroll the loop of one that compares, and say so.
    template <int kStep, class Value, class Combine>
    static ATTILE_LANE_FN Value fold_lanes(Value value, Combine combine) {
        value = combine(value, shuffle_xor(value, kStep));
        if constexpr (kStep > 1) return fold_lanes<kStep / 2>(value, combine);
        return value;
    }

    RowMemory<kWidth> &memory_;
};

// Where the bits of some numbers begin and end, and what is special among them.
struct Reach {
    int lowest = 1 << 20, highest = -(1 << 20);
    uint32_t kinds = 0;

    ATTILE_LANE_FN void add(const Number &x) {
        if (x.is_special) {
            kinds |= x.is_nan ? 3u : x.is_negative ? 2u : 1u;
        } else if (x.significand != 0) {
            add_bits(x.exponent, x.exponent + 53);
        }
    }
    ATTILE_LANE_FN void add_product(const Number &x, const Number &y) {
        if (x.is_special || y.is_special) {
            const bool is_nan = x.is_nan || y.is_nan || x.significand == 0 || y.significand == 0;
            kinds |= is_nan ? 3u : x.is_negative != y.is_negative ? 2u : 1u;
        } else if (x.significand != 0 && y.significand != 0) {
            add_bits(x.exponent + y.exponent, x.exponent + y.exponent + 106);
        }
    }
    // Of all threads; `count` numbers are added.
    template <class Threads>
    ATTILE_LANE_FN void share(const Threads &threads, int64_t count) {
        lowest = threads.fold(lowest, [](int a, int b) { return a < b ? a : b; });
        highest = threads.fold(highest, [](int a, int b) { return a > b ? a : b; }) + bits_of_count(count);
    }
    // Of a sum of so many, and its sign.
    static ATTILE_LANE_FN int bits_of_count(int64_t count) { return 66 - leading_zeros(static_cast<uint64_t>(count) | 1); }

  private:
    ATTILE_LANE_FN void add_bits(int first, int end) {
        lowest = first < lowest ? first : lowest;
        highest = end > highest ? end : highest;
    }
};

// The weights e^(x - top) of a row's numbers, of which the largest is top.
struct Weights {
    double top = minus_infinity(), least = -minus_infinity();  // `least`: of those that are finite.

    ATTILE_LANE_FN void add(double x) {
        top = larger(top, x);
        least = x < least && x != minus_infinity() ? x : least;
    }
    template <class Threads>
    ATTILE_LANE_FN void share(const Threads &threads) {
        top = threads.fold(top, [](double a, double b) { return larger(a, b); });
        least = threads.fold(least, [](double a, double b) { return a < b ? a : b; });
    }
    ATTILE_LANE_FN double of(double x) const { return exp_by_steps(x - top); }
    // Their sum, in all threads; x(i) are the numbers, i below count.
    template <class Threads, class X>
    ATTILE_LANE_FN double sum(const Threads &threads, int64_t count, X x) const {
        return threads.sum(last_of_weights(least, top), 1 + Reach::bits_of_count(count), 0, [&](int base, int64_t(&sums)[kWindowWords]) {
#pragma unroll 1
            for (int64_t i = threads.index(); i < count; i += Threads::kWidthOfRow) add_number(Number(of(x(i))), base, sums);
        });
    }
};

}  // namespace attile::gpu::exact
