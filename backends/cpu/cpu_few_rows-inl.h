// SPDX-License-Identifier: Apache-2.0
// Products with few rows (M = 1 .. 16): b is far larger than everything else, so it is read once, in place, at the memory's speed.
//
// b with its columns together is taken eight (one row) or four steps of k at a time over runs of columns, the sums in the first cache; b
// with k together becomes dot products. In either case a sum's order is fixed by the shape alone.
#if defined(ATTILE_CPU_FEW_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_FEW_ROWS_INL_H
#undef ATTILE_CPU_FEW_ROWS_INL_H
#else
#define ATTILE_CPU_FEW_ROWS_INL_H
#endif

#include "cpu_gemm.h"
#include "cpu_microkernel-inl.h"
#include "cpu_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

// What will be read soon, row for row beside what is read now: processors do not guess where a pass over rows continues after its end, and
// a single core gets a memory's speed only with many lines under way. Not asked for if p is NULL.
template <class S>
struct Soon {
    const S *p = nullptr;
    int64_t step = 0;
    HWY_INLINE void ask(int64_t row, int64_t element) const {
        // One instruction a vector is too many for narrow ones; each line is asked for once.
        if (element * static_cast<int64_t>(sizeof(S)) % 64 == 0) __builtin_prefetch(p + row * step + element, 0, 2);
    }
};

// sums[i][j] += sum over kDepth steps of a[i][k] b[k][j] for kRows rows and `count` columns.
template <class T, class S, int kRows, int kDepth>
HWY_INLINE void few_rows_strip(const T *a, int64_t a_step, const S *b, int64_t b_step, int64_t count, T *sums, int64_t sums_step,
                               const Soon<S> &soon = {}) {
    const Tag<T> d;
    Vec<T> factor[kRows][kDepth];
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kRows; ++i) {
        ATTILE_CPU_UNROLL
        for (int k = 0; k < kDepth; ++k) factor[i][k] = hn::Set(d, a[i * a_step + k]);
    }
    int64_t j = 0;
    for (; j + kLanes<T> <= count; j += kLanes<T>) {
        Vec<T> sum[kRows];
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kRows; ++i) sum[i] = hn::LoadU(d, sums + i * sums_step + j);
        ATTILE_CPU_UNROLL
        for (int k = 0; k < kDepth; ++k) {
            if (soon.p != nullptr) soon.ask(k, j);
            const Vec<T> v = load_as(d, b + k * b_step + j);
            ATTILE_CPU_UNROLL
            for (int i = 0; i < kRows; ++i) sum[i] = hn::MulAdd(factor[i][k], v, sum[i]);
        }
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kRows; ++i) hn::StoreU(sum[i], d, sums + i * sums_step + j);
    }
    if (j == count) return;
    for (int i = 0; i < kRows; ++i) {
        Vec<T> sum = load_first(d, sums + i * sums_step + j, count - j);
        for (int k = 0; k < kDepth; ++k) sum = hn::MulAdd(factor[i][k], load_as(d, b + k * b_step + j, count - j), sum);
        store_first(d, sum, sums + i * sums_step + j, count - j);
    }
}

template <class T, class S, int kDepth>
HWY_INLINE void few_rows_depth(int64_t m, const T *a, int64_t a_step, const S *b, int64_t b_step, int64_t count, T *sums, int64_t sums_step,
                               Soon<S> soon = {}) {
    int64_t i = 0;
    for (; i + 4 <= m; i += 4, soon.p = nullptr) {
        few_rows_strip<T, S, 4, kDepth>(a + i * a_step, a_step, b, b_step, count, sums + i * sums_step, sums_step, soon);
    }
    for (; i + 2 <= m; i += 2, soon.p = nullptr) {
        few_rows_strip<T, S, 2, kDepth>(a + i * a_step, a_step, b, b_step, count, sums + i * sums_step, sums_step, soon);
    }
    if (i < m) few_rows_strip<T, S, 1, kDepth>(a + i * a_step, a_step, b, b_step, count, sums + i * sums_step, sums_step, soon);
}

// b's columns lie together.
template <class T, class S>
HWY_NOINLINE void few_rows_along(int64_t m, int64_t k, const T *a, const S *b, int64_t b_step, int64_t n, T *sums) {
    constexpr int64_t kRun = 2048 / sizeof(T);
    for (int64_t i = 0; i < m * n; ++i) sums[i] = 0;
    int64_t p = 0;
    if (m == 1) {
        for (; p + 8 <= k; p += 8) {
            few_rows_strip<T, S, 1, 8>(a + p, k, b + p * b_step, b_step, n, sums, n, Soon<S>{b + (p + 8) * b_step, b_step});
        }
    } else {
        for (; p + 4 <= k; p += 4) {
            for (int64_t j = 0; j < n; j += kRun) {
                few_rows_depth<T, S, 4>(m, a + p, k, b + p * b_step + j, b_step, n - j < kRun ? n - j : kRun, sums + j, n,
                                        Soon<S>{b + (p + 4) * b_step + j, b_step});
            }
        }
    }
    for (; p < k; ++p) few_rows_depth<T, S, 1>(m, a + p, k, b + p * b_step, b_step, n, sums, n);
}

// The sums of four vectors' lanes, in one vector of four: a third of the instructions that four sums one by one take.
template <class D>
HWY_INLINE hn::Vec<hn::FixedTag<float, 4>> halves_added(D d, hn::Vec<D> v) {
    if constexpr (hn::MaxLanes(D()) <= 4) {
        return v;
    } else {
        const hn::Half<D> dh;
        return halves_added(dh, hn::Add(hn::LowerHalf(dh, v), hn::UpperHalf(dh, v)));
    }
}
HWY_INLINE hn::Vec<hn::FixedTag<float, 4>> four_sums(const Vec<float> (&x)[4]) {
    const Tag<float> d;
    const hn::Repartition<double, decltype(d)> d2;
    const auto x01 = hn::BitCast(d2, hn::Add(hn::InterleaveLower(d, x[0], x[1]), hn::InterleaveUpper(d, x[0], x[1])));
    const auto x23 = hn::BitCast(d2, hn::Add(hn::InterleaveLower(d, x[2], x[3]), hn::InterleaveUpper(d, x[2], x[3])));
    return halves_added(d, hn::Add(hn::BitCast(d, hn::InterleaveLower(d2, x01, x23)), hn::BitCast(d, hn::InterleaveUpper(d2, x01, x23))));
}

// sums[i][j] += a[i][0 .. depth) . b[j][0 .. depth)
template <class T, class S, int kRows, int kColumns>
HWY_INLINE void dot_tile(const T *a, int64_t a_step, const S *b, int64_t b_step, int64_t depth, T *sums, int64_t sums_step,
                         const Soon<S> &soon) {
    const Tag<T> d;
    Vec<T> acc[kRows][kColumns];
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kRows; ++i) {
        ATTILE_CPU_UNROLL
        for (int j = 0; j < kColumns; ++j) acc[i][j] = hn::Zero(d);
    }
    int64_t p = 0;
    for (; p + kLanes<T> <= depth; p += kLanes<T>) {
        Vec<T> v[kColumns];
        ATTILE_CPU_UNROLL
        for (int j = 0; j < kColumns; ++j) {
            if (soon.p != nullptr) soon.ask(j, p);
            v[j] = load_as(d, b + j * b_step + p);
        }
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kRows; ++i) {
            const Vec<T> u = hn::LoadU(d, a + i * a_step + p);
            ATTILE_CPU_UNROLL
            for (int j = 0; j < kColumns; ++j) acc[i][j] = hn::MulAdd(u, v[j], acc[i][j]);
        }
    }
    if (p < depth) {
        for (int i = 0; i < kRows; ++i) {
            const Vec<T> u = load_first(d, a + i * a_step + p, depth - p);
            for (int j = 0; j < kColumns; ++j) acc[i][j] = hn::MulAdd(u, load_as(d, b + j * b_step + p, depth - p), acc[i][j]);
        }
    }
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kRows; ++i) {
        if constexpr (sizeof(T) == 4 && kColumns == 4) {
            const hn::FixedTag<float, 4> d4;
            hn::StoreU(hn::Add(hn::LoadU(d4, sums + i * sums_step), four_sums(acc[i])), d4, sums + i * sums_step);
        } else {
            for (int j = 0; j < kColumns; ++j) sums[i * sums_step + j] += hn::GetLane(hn::SumOfLanes(d, acc[i][j]));
        }
    }
}

template <class T, class S, int kColumns>
HWY_INLINE void dot_columns(int64_t m, const T *a, int64_t a_step, const S *b, int64_t b_step, int64_t depth, T *sums, int64_t sums_step,
                            Soon<S> soon = {}) {
    int64_t i = 0;
    for (; i + 4 <= m; i += 4, soon.p = nullptr) {
        dot_tile<T, S, 4, kColumns>(a + i * a_step, a_step, b, b_step, depth, sums + i * sums_step, sums_step, soon);
    }
    for (; i + 2 <= m; i += 2, soon.p = nullptr) {
        dot_tile<T, S, 2, kColumns>(a + i * a_step, a_step, b, b_step, depth, sums + i * sums_step, sums_step, soon);
    }
    if (i < m) dot_tile<T, S, 1, kColumns>(a + i * a_step, a_step, b, b_step, depth, sums + i * sums_step, sums_step, soon);
}

// b's k lie together.
template <class T, class S>
HWY_NOINLINE void few_rows_across(int64_t m, int64_t k, const T *a, const S *b, int64_t b_step, int64_t n, T *sums) {
    // With several groups of rows, pieces of k for which four columns of b stay in the first cache.
    const int64_t piece = m <= 4 ? k : static_cast<int64_t>(4096 / sizeof(T));
    for (int64_t i = 0; i < m * n; ++i) sums[i] = 0;
    int64_t j = 0;
    for (; j + 4 <= n; j += 4) {
        for (int64_t p = 0; p < k; p += piece) {
            const int64_t depth = k - p < piece ? k - p : piece;
            dot_columns<T, S, 4>(m, a + p, k, b + j * b_step + p, b_step, depth, sums + j, n, Soon<S>{b + (j + 4) * b_step + p, b_step});
        }
    }
    for (; j < n; ++j) {
        for (int64_t p = 0; p < k; p += piece) {
            const int64_t depth = k - p < piece ? k - p : piece;
            dot_columns<T, S, 1>(m, a + p, k, b + j * b_step + p, b_step, depth, sums + j, n);
        }
    }
}

template <class T>
void few_rows(const GemmView &view, const T *a_rows, int64_t j0, int64_t count, T *sums) {
    with_storage<T>(view.b.dtype, [&](auto s) {
        using S = decltype(s);
        const S *b = static_cast<const S *>(view.b.data) + j0 * view.b.column;
        if constexpr (sizeof(T) == 8 && sizeof(S) == 4) {
            return;  // float64 products have float64 operands
        } else if (view.b.column == 1 && (view.b.row != 1 || view.n >= kLanes<T>)) {
            few_rows_along<T, S>(view.m, view.k, a_rows, b, view.b.row, count, sums);
        } else {
            few_rows_across<T, S>(view.m, view.k, a_rows, b, view.b.column, count, sums);
        }
    });
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
