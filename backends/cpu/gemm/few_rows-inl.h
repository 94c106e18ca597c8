// SPDX-License-Identifier: Apache-2.0
// Products with few rows (M = 1 .. 16): b is far larger than everything else, so it is read once, in place, at the memory's speed.
//
// b with its columns contiguous: one row takes four vectors of eight rows of b at a time; two to four rows (where registers are many) take
// eight or six steps of k at a time over all columns, the sums in the first- or second-level cache; more rows take tiles of sums in
// registers over sixteen steps, in runs of columns whose sums stay in the first-level cache. b with k contiguous becomes dot products. In
// either case a sum's order is fixed by the shape alone. Record: docs/kernels/cpu.md.
#if defined(ATTILE_CPU_FEW_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_FEW_ROWS_INL_H
#undef ATTILE_CPU_FEW_ROWS_INL_H
#else
#define ATTILE_CPU_FEW_ROWS_INL_H
#endif

#include "gemm/gemm.h"
#include "gemm/microkernel-inl.h"
#include "gemm/pack-inl.h"
#include "simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

// A prefetcher for what will be read soon: rows of `width` elements, `step` apart, line after line in the order of memory, whatever the
// order in which they will be read. No processor predicts short rows that are read side by side. Long rows, a few at a time, come faster
// without it (docs/kernels/cpu.md).
template <class S>
class Soon {
  public:
    Soon() = default;
    HWY_INLINE Soon(const S *rows, int64_t step, int64_t width) : row_(rows), step_(step), width_(width) {}
    HWY_INLINE bool asks() const { return row_ != nullptr; }
    // The lines for `count` vectors of kLanes elements of S, the first of which is number `vector` (lines may be longer than vectors).
    template <class T>
    HWY_INLINE void ask(int vector) {
        if (vector * kLanes<T> % kLine == 0) ask_line<2>();
    }
    // Lines of a row.
    HWY_INLINE int64_t lines() const { return (width_ + kLine - 1) / kLine; }
    // Prefetches the next line. kNear 3: into L1, 2: into L2.
    template <int kNear>
    HWY_INLINE void ask_line() {
        __builtin_prefetch(row_ + at_, 0, kNear);
        at_ += kLine;
        if (at_ < width_) return;
        at_ = 0;
        row_ += step_;
    }
    HWY_INLINE void ask_line(bool first_cache) {
        if (first_cache) {
            ask_line<3>();
        } else {
            ask_line<2>();
        }
    }

  private:
    static constexpr int64_t kLine = static_cast<int64_t>(64 / sizeof(S));
    const S *row_ = nullptr;
    int64_t step_ = 0, width_ = 0, at_ = 0;
};

// sums[i][j] += sum over kDepth steps of a(i, k) b[k][j] for kRows rows and `count` columns; a(i, k) at a[i * a_row + k * a_next].
template <class T, class S, int kRows, int kDepth>
HWY_INLINE void few_rows_strip(const T *a, int64_t a_row, int64_t a_next, const S *b, int64_t b_step, int64_t count, T *sums,
                               int64_t sums_step, Soon<S> soon = {}) {
    const Tag<T> d;
    Vec<T> factor[kRows][kDepth];
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kRows; ++i) {
        ATTILE_CPU_UNROLL
        for (int k = 0; k < kDepth; ++k) factor[i][k] = hn::Set(d, a[i * a_row + k * a_next]);
    }
    int64_t j = 0;
    for (; j + kLanes<T> <= count; j += kLanes<T>) {
        Vec<T> sum[kRows];
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kRows; ++i) sum[i] = hn::LoadU(d, sums + i * sums_step + j);
        ATTILE_CPU_UNROLL
        for (int k = 0; k < kDepth; ++k) {
            if (soon.asks()) soon.template ask<T>(k);
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

// All of k, in strips of k and runs of columns whose sums stay in L1 or L2; a's k outermost.
template <class T, class S, int kRows>
HWY_NOINLINE void few_rows_strips(int64_t k, const T *a, const S *b, int64_t b_step, int64_t n, T *sums) {
    constexpr int kDepth = kRows == 4 ? 6 : 8;
    constexpr int64_t kRun = 65536 / static_cast<int64_t>(sizeof(T)) / kRows;
    for (int64_t j = 0; j < n; j += kRun) {
        const int64_t count = least(n - j, kRun);
        int64_t p = 0;
        for (; p + kDepth <= k; p += kDepth) {
            const S *rows = b + p * b_step + j;
            few_rows_strip<T, S, kRows, kDepth>(a + p * kRows, 1, kRows, rows, b_step, count, sums + j, n,
                                                Soon<S>(rows + kDepth * b_step, b_step, count));
        }
        for (; p < k; ++p) {
            few_rows_strip<T, S, kRows, 1>(a + p * kRows, 1, kRows, b + p * b_step + j, b_step, count, sums + j, n);
        }
    }
}

// One row: a few vectors of each of eight rows of b at a time, with their sums in registers; runs of columns as above. Contiguous memory is
// read in order, so that hardware prefetching is enough.
template <class T, class S>
HWY_NOINLINE void one_row_along(int64_t k, const T *a, const S *b, int64_t b_step, int64_t n, T *sums) {
    constexpr int kDepth = 8, kVectors = 4;
    constexpr int64_t kWidth = kVectors * kLanes<T>, kRun = 65536 / static_cast<int64_t>(sizeof(T));
    const Tag<T> d;
    for (int64_t j0 = 0; j0 < n; j0 += kRun) {
        const int64_t end = least(n, j0 + kRun), whole = end - (end - j0) % kWidth;
        int64_t p = 0;
        for (; p + kDepth <= k; p += kDepth) {
            const S *rows = b + p * b_step;
            Vec<T> factor[kDepth];
            ATTILE_CPU_UNROLL
            for (int i = 0; i < kDepth; ++i) factor[i] = hn::Set(d, a[p + i]);
            for (int64_t j = j0; j < whole; j += kWidth) {
                Vec<T> sum[kVectors];
                ATTILE_CPU_UNROLL
                for (int v = 0; v < kVectors; ++v) sum[v] = hn::LoadU(d, sums + j + v * kLanes<T>);
                ATTILE_CPU_UNROLL
                for (int i = 0; i < kDepth; ++i) {
                    const S *row = rows + i * b_step + j;
                    ATTILE_CPU_UNROLL
                    for (int v = 0; v < kVectors; ++v) sum[v] = hn::MulAdd(factor[i], load_as(d, row + v * kLanes<T>), sum[v]);
                }
                ATTILE_CPU_UNROLL
                for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[v], d, sums + j + v * kLanes<T>);
            }
            few_rows_strip<T, S, 1, kDepth>(a + p, 1, 1, rows + whole, b_step, end - whole, sums + whole, n);
        }
        for (; p < k; ++p) few_rows_strip<T, S, 1, 1>(a + p, 1, 1, b + p * b_step + j0, b_step, end - j0, sums + j0, n);
    }
}

// A tile of sums in registers over some steps of k; thin(i, k) at a[k * m + i]. kVectors 0: the `count` columns of one vector.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
inline constexpr int kFewRows = 8;
#else
inline constexpr int kFewRows = 4;
#endif
inline constexpr int kFewVectors = 3;
template <class T, class S, int kRows, int kVectors>
HWY_NOINLINE void few_rows_tile(int64_t depth, const T *a, int64_t m, const S *b, int64_t b_step, int64_t count, T *sums, int64_t sums_step,
                                const S *soon) {
    constexpr int kWidth = kVectors == 0 ? 1 : kVectors;
    const Tag<T> d;
    Vec<T> acc[kRows][kWidth];
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kRows; ++i) {
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kWidth; ++v) {
            const T *sum = sums + i * sums_step + v * kLanes<T>;
            if constexpr (kVectors == 0) {
                acc[i][v] = load_first(d, sum, count);
            } else {
                acc[i][v] = hn::LoadU(d, sum);
            }
        }
    }
    for (; depth > 0; --depth, a += m, b += b_step) {
        if (soon != nullptr) {
            for (int64_t c = 0; c < kWidth * kLanes<T>; c += static_cast<int64_t>(64 / sizeof(S))) __builtin_prefetch(soon + c, 0, 2);
            soon += b_step;
        }
        Vec<T> w[kWidth];
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kWidth; ++v) {
            if constexpr (kVectors == 0) {
                w[v] = load_as(d, b, count);
            } else {
                w[v] = load_as(d, b + v * kLanes<T>);
            }
        }
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kRows; ++i) {
            const Vec<T> t = hn::Set(d, a[i]);
            ATTILE_CPU_UNROLL
            for (int v = 0; v < kWidth; ++v) acc[i][v] = hn::MulAdd(t, w[v], acc[i][v]);
        }
    }
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kRows; ++i) {
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kWidth; ++v) {
            T *sum = sums + i * sums_step + v * kLanes<T>;
            if constexpr (kVectors == 0) {
                store_first(d, acc[i][v], sum, count);
            } else {
                hn::StoreU(acc[i][v], d, sum);
            }
        }
    }
}

template <class T, class S>
using FewTileFn = void (*)(int64_t, const T *, int64_t, const S *, int64_t, int64_t, T *, int64_t, const S *);
template <class T, class S, int kVectors>
FewTileFn<T, S> few_tile_fn(int64_t rows) {
    static constexpr auto kTable = []<int... kRow>(std::integer_sequence<int, kRow...>) {
        return std::array<FewTileFn<T, S>, sizeof...(kRow)>{&few_rows_tile<T, S, kRow + 1, kVectors>...};
    }
    (std::make_integer_sequence<int, kFewRows>{});
    return kTable[static_cast<size_t>(rows - 1)];
}

// b's columns are contiguous, a's k outermost. Several steps of k for a run of columns whose sums and pieces of b stay in L1.
template <class T, class S>
HWY_NOINLINE void few_rows_along_piece(int64_t m, int64_t k, const T *a, const S *b, int64_t b_step, int64_t n, T *sums) {
    for (int64_t i = 0; i < m * n; ++i) sums[i] = 0;
    if (m == 1) return one_row_along<T, S>(k, a, b, b_step, n, sums);
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
    if (m == 2) return few_rows_strips<T, S, 2>(k, a, b, b_step, n, sums);
    if (m == 3) return few_rows_strips<T, S, 3>(k, a, b, b_step, n, sums);
    if (m == 4) return few_rows_strips<T, S, 4>(k, a, b, b_step, n, sums);
#endif
    constexpr int64_t kColumns = kFewVectors * kLanes<T>;
    constexpr int64_t kRun = 2048 / static_cast<int64_t>(sizeof(T)) / kColumns * kColumns;
    constexpr int64_t kSteps = 16;
    const int64_t groups = (m + kFewRows - 1) / kFewRows;
    for (int64_t p = 0; p < k; p += kSteps) {
        const int64_t depth = k - p < kSteps ? k - p : kSteps;
        const bool more = p + 2 * kSteps <= k;
        for (int64_t j0 = 0; j0 < n; j0 += kRun) {
            const int64_t end = n - j0 < kRun ? n : j0 + kRun;
            for (int64_t g = 0; g < groups; ++g) {
                const int64_t i = m * g / groups, rows = m * (g + 1) / groups - i;
                const FewTileFn<T, S> whole = few_tile_fn<T, S, kFewVectors>(rows), narrow = few_tile_fn<T, S, 0>(rows);
                for (int64_t j = j0; j < end;) {
                    const int64_t count = end - j < kColumns ? least(end - j, kLanes<T>) : kColumns;
                    const S *from = b + p * b_step + j;
                    const S *soon = more && g == 0 ? from + kSteps * b_step : nullptr;
                    (count == kColumns ? whole : narrow)(depth, a + p * m + i, m, from, b_step, count, sums + i * n + j, n, soon);
                    j += count;
                }
            }
        }
    }
}

// Pieces of k are summed on their own, in a place behind the whole sums: shorter chains of additions have smaller errors.
template <class T, class S>
void few_rows_along(int64_t m, int64_t k, const T *a, const S *b, int64_t b_step, int64_t n, T *sums) {
    few_rows_along_piece<T, S>(m, least(k, kFewRowsPiece), a, b, b_step, n, sums);
    const Tag<T> d;
    T *const more = sums + m * n;
    for (int64_t p = kFewRowsPiece; p < k; p += kFewRowsPiece) {
        few_rows_along_piece<T, S>(m, least(k - p, kFewRowsPiece), a + p * m, b + p * b_step, b_step, n, more);
        for (int64_t i = 0; i < m * n; i += kLanes<T>) {
            const int64_t left = m * n - i;
            store_first(d, hn::Add(load_first(d, sums + i, left), load_first(d, more + i, left)), sums + i, left);
        }
    }
}

// The sums of the lanes of four vectors, in one vector of four: a third of the instructions of four separate sums.
template <class D>
HWY_INLINE hn::Vec<hn::FixedTag<float, 4>> halves_added([[maybe_unused]] D d, hn::Vec<D> v) {
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
HWY_INLINE void dot_tile(const T *a, int64_t a_step, const S *b, int64_t b_step, int64_t depth, T *sums, int64_t sums_step, Soon<S> soon) {
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
            if (soon.asks()) soon.template ask<T>(j);
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
    for (; i + 4 <= m; i += 4, soon = {}) {
        dot_tile<T, S, 4, kColumns>(a + i * a_step, a_step, b, b_step, depth, sums + i * sums_step, sums_step, soon);
    }
    for (; i + 2 <= m; i += 2, soon = {}) {
        dot_tile<T, S, 2, kColumns>(a + i * a_step, a_step, b, b_step, depth, sums + i * sums_step, sums_step, soon);
    }
    if (i < m) dot_tile<T, S, 1, kColumns>(a + i * a_step, a_step, b, b_step, depth, sums + i * sums_step, sums_step, soon);
}

// b's k are contiguous.
template <class T, class S>
HWY_NOINLINE void few_rows_across(int64_t m, int64_t k, const T *a, const S *b, int64_t b_step, int64_t n, T *sums) {
    // With several groups of rows: pieces of k for which four columns of b stay in L1. Otherwise pieces so long that their ends cost
    // little, and so short that, for some millions of k, a lane sums about as many elements as there are pieces.
    const int64_t piece = m <= 4 ? 1024 * kLanes<T> : static_cast<int64_t>(4096 / sizeof(T));
    for (int64_t i = 0; i < m * n; ++i) sums[i] = 0;
    int64_t j = 0;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
    // Sixteen sums in registers: a, which fills much of L1, is read half as often.
    for (; m == 2 && j + 8 <= n; j += 8) {
        for (int64_t p = 0; p < k; p += piece) {
            dot_columns<T, S, 8>(m, a + p, k, b + j * b_step + p, b_step, least(k - p, piece), sums + j, n);
        }
    }
#endif
    for (; j + 4 <= n; j += 4) {
        for (int64_t p = 0; p < k; p += piece) {
            const int64_t depth = k - p < piece ? k - p : piece;
            const Soon<S> soon = m <= 4 ? Soon<S>() : Soon<S>(b + (j + 4) * b_step + p, b_step, depth);
            dot_columns<T, S, 4>(m, a + p, k, b + j * b_step + p, b_step, depth, sums + j, n, soon);
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
HWY_INLINE bool reads_along(const GemmView &view) {
    return view.b.column == 1 && (view.b.row != 1 || view.n >= kLanes<T>);
}

// a as the loops above read it: k outermost, or row after row.
template <class T>
void few_rows_pack(const GemmView &view, T *a_rows) {
    if (reads_along<T>(view)) {
        pack_panels<T>(view.a.data, view.a.dtype, 0, view.a.row, view.a.column, view.m, view.k, a_rows, view.m);
        return;
    }
    for (int64_t i = 0; i < view.m; ++i) {
        pack_panels<T>(view.a.data, view.a.dtype, i * view.a.row, view.a.column, 0, view.k, 1, a_rows + i * view.k, view.k);
    }
}

template <class T>
void few_rows(const GemmView &view, const T *a_rows, int64_t j0, int64_t count, T *sums) {
    with_storage<T>(view.b.dtype, [&](auto s) {
        using S = decltype(s);
        const S *b = static_cast<const S *>(view.b.data) + j0 * view.b.column;
        if (reads_along<T>(view)) {
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
