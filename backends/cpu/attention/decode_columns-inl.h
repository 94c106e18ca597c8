// SPDX-License-Identifier: Apache-2.0
// Attention of few rows, on targets of fewer or shorter registers than AVX-512: the two products, with keys and values read where they lie.
#if defined(ATTILE_CPU_DECODE_COLUMNS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_DECODE_COLUMNS_INL_H
#undef ATTILE_CPU_DECODE_COLUMNS_INL_H
#else
#define ATTILE_CPU_DECODE_COLUMNS_INL_H
#endif

#include <algorithm>

#include "attention/attention.h"
#include "attention/decode_rows-inl.h"
#include "gemm/few_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_AVX3

// The rows and vectors of columns that a tile of sums has.
#if HWY_TARGET == HWY_NEON
inline constexpr int kDecodeTileRows = 4, kDecodeVectors = 4;
#else
inline constexpr int kDecodeTileRows = 4, kDecodeVectors = 2;
#endif
// Keys of a run of values.
inline constexpr int64_t kDecodeRun = 40;

// Tiles over `columns`: fn.operator()<kVectors>(first column), kVectors 0 for a last vector that is not whole.
template <class T, class Fn>
HWY_INLINE void column_tiles(int64_t columns, Fn &&fn) {
    int64_t c = 0;
    for (; c + kDecodeVectors * kLanes<T> <= columns; c += kDecodeVectors * kLanes<T>) fn.template operator()<kDecodeVectors>(c);
    for (; c + kLanes<T> <= columns; c += kLanes<T>) fn.template operator()<1>(c);
    if (c < columns) fn.template operator()<0>(c);
}
template <class T>
int64_t column_tile_count(int64_t columns) {
    int64_t count = 0;
    column_tiles<T>(columns, [&]<int>(int64_t) { ++count; });
    return count;
}
// Tiles over `rows`: fn.operator()<kRows>(first row).
template <class Fn>
HWY_INLINE void row_tiles(int64_t rows, Fn &&fn) {
    int64_t r = 0;
    for (; r + kDecodeTileRows <= rows; r += kDecodeTileRows) fn.template operator()<kDecodeTileRows>(r);
    if constexpr (kDecodeTileRows > 2) {
        for (; r + 2 <= rows; r += 2) fn.template operator()<2>(r);
    }
    for (; r < rows; ++r) fn.template operator()<1>(r);
}

// sums[r][c] += sum over keys of weights[r][key] values[key][c], summed by itself in registers first: shorter chains, smaller errors. With
// kRuns a run of keys at a time, and = instead of += for the first unless it `adds`.
template <class T, class S, int kRows, int kVectors, bool kRuns>
HWY_NOINLINE void weigh_tile(int64_t keys, const T *weights, const S *values, int64_t value_step, int64_t left, bool adds, T *sums,
                             int64_t sums_step, Soon<S> &asked, int64_t asks) {
    constexpr int kWidth = kVectors == 0 ? 1 : kVectors;
    const Tag<T> d;
    Soon<S> soon = asked;  // in registers
    do {
        const int64_t run = kRuns ? least(kDecodeRun, keys) : keys;
        Vec<T> acc[kRows][kWidth];
        ATTILE_CPU_UNROLL
        for (int r = 0; r < kRows; ++r) {
            ATTILE_CPU_UNROLL
            for (int v = 0; v < kWidth; ++v) acc[r][v] = hn::Zero(d);
        }
        for (int64_t key = 0; key < run; ++key, values += value_step) {
            for (int64_t n = 0; n < asks; ++n) soon.template ask_line<2>();
            Vec<T> w[kRows];
            ATTILE_CPU_UNROLL
            for (int r = 0; r < kRows; ++r) w[r] = hn::Set(d, weights[r * kScoreStep + key]);
            ATTILE_CPU_UNROLL
            for (int v = 0; v < kWidth; ++v) {
                const Vec<T> x = kVectors > 0 ? load_as(d, values + v * kLanes<T>) : load_as(d, values, left);
                ATTILE_CPU_UNROLL
                for (int r = 0; r < kRows; ++r) acc[r][v] = multiply_add_in_place(w[r], x, acc[r][v]);
            }
        }
        ATTILE_CPU_UNROLL
        for (int r = 0; r < kRows; ++r) {
            ATTILE_CPU_UNROLL
            for (int v = 0; v < kWidth; ++v) {
                T *const row = sums + r * sums_step;
                const Vec<T> total =
                    kRuns && !adds ? acc[r][v] : hn::Add(load_first(d, row + v * kLanes<T>, kVectors > 0 ? kLanes<T> : left), acc[r][v]);
                store_first(d, total, row + v * kLanes<T>, kVectors > 0 ? kLanes<T> : left);
            }
        }
        adds = true;
        weights += run;
        keys -= run;
    } while (kRuns && keys > 0);
    asked = soon;
}

// Both products of some rows of queries with blocks of keys and values.
template <class T, class S>
class DecodeProducts {
  public:
    // From a row of queries to the next, and how they lie.
    static Size query_step(int64_t head_dim) { return head_dim; }
    static void lay_query(const T *row, int64_t head_dim, T *query) { std::copy_n(row, head_dim, query); }

    DecodeProducts(int64_t rows, const T *queries, char * /*buffer*/) : rows_(rows), queries_(queries) {}

    // scores[r][key]
    void score(const DecodeBlock<S> &x, T *scores) {
        const RowSpan<S> &k = x.keys, &v = x.values;
        std::fill_n(scores, rows_ * kScoreStep, T{0});
        int64_t j = 0;
        for (; j + 4 <= k.count; j += 4) {
            // The values that the keys belong to come while the keys pass by, the next block's keys while the values do.
            dot_columns<T, S, 4>(rows_, queries_, k.width, k.rows + j * k.step, k.step, k.width, scores + j, kScoreStep,
                                 Soon<S>(v.rows + j * v.step, v.step, v.width));
        }
        for (; j < k.count; ++j)
            dot_columns<T, S, 1>(rows_, queries_, k.width, k.rows + j * k.step, k.step, k.width, scores + j, kScoreStep);
    }

    // sums[r] += what weights[r][key] make of the values; unless it `adds`, =, and a run at a time.
    void weigh(const DecodeBlock<S> &x, const T *weights, bool adds, T *sums, int64_t sums_step) {
        const RowSpan<S> &v = x.values;
        Soon<S> soon(x.next_keys.rows, x.next_keys.step, x.next_keys.width);
        const int64_t passes = ceil_div(rows_, kDecodeTileRows) * column_tile_count<T>(v.width);
        const int64_t asks = passes > 0 ? ceil_div(soon.lines(), passes) : 0;
        column_tiles<T>(v.width, [&]<int kVectors>(int64_t c) {
            row_tiles(rows_, [&]<int kRows>(int64_t r) {
                (adds ? weigh_tile<T, S, kRows, kVectors, false>
                      : weigh_tile<T, S, kRows, kVectors, true>)(v.count, weights + r * kScoreStep, v.rows + c, v.step, v.width - c, adds,
                                                                 sums + r * sums_step + c, sums_step, soon, asks);
            });
        });
    }

  private:
    int64_t rows_;
    const T *queries_;
};

#endif  // HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_AVX3
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
