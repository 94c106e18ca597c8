// SPDX-License-Identifier: Apache-2.0
// Numbers of 8 and 4 bits in products with sums in float32: packing them with their scales, and products of few rows that read them in
// place.
#if defined(ATTILE_CPU_NARROW_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_NARROW_INL_H
#undef ATTILE_CPU_NARROW_INL_H
#else
#define ATTILE_CPU_NARROW_INL_H
#endif

#include "gemm/few_rows-inl.h"
#include "gemm/four_bits-inl.h"
#include "gemm/gemm.h"
#include "gemm/pack-inl.h"
#include "simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

// Steps of a panel that are packed and then scaled, while they are in the first cache.
inline constexpr int64_t kScaledSteps = 32;
// Scales that are looked up at a time.
inline constexpr int64_t kScaleRun = 64;

// factors[w] = the scale of row width0 + w and column `depth` of what they belong to.
HWY_INLINE void look_up(const ScaleView &scale, int64_t width0, int64_t depth, int64_t count, float *factors) {
    const float *line = scale.data + depth / scale.column_group * scale.column;
    if (scale.row_group == 1) {
        for (int64_t w = 0; w < count; ++w) factors[w] = line[(width0 + w) * scale.row];
        return;
    }
    for (int64_t w = 0; w < count;) {
        const int64_t group = (width0 + w) / scale.row_group, end = least(count, (group + 1) * scale.row_group - width0);
        for (; w < end; ++w) factors[w] = line[group * scale.row];
    }
}

// panel[k * panel_width + w] = factor[w] (itself - zero[w])
HWY_INLINE void scale_steps(const NarrowBlock &block, int64_t w0, int64_t k, int64_t width, int64_t depth, float *panel,
                            int64_t panel_width) {
    const Tag<float> d;
    HWY_ALIGN float factors[kScaleRun];
    HWY_ALIGN float zeros[kScaleRun] = {};
    for (int64_t w = 0; w < width; w += kScaleRun) {
        const int64_t count = least(kScaleRun, width - w);
        look_up(block.scale, block.width0 + w0 + w, block.depth0 + k, count, factors);
        if (block.scale.zero != nullptr) look_up(block.scale.zeros(), block.width0 + w0 + w, block.depth0 + k, count, zeros);
        for (int64_t step = 0; step < depth; ++step) {
            float *const row = panel + step * panel_width + w;
            for (int64_t v = 0; v < count; v += kLanes<float>) {
                const int64_t left = count - v;
                const auto number = hn::Sub(load_first(d, row + v, left), hn::Load(d, zeros + v));
                store_first(d, hn::Mul(number, hn::Load(d, factors + v)), row + v, left);
            }
        }
    }
}

// Steps from k on, as many as share their scales and no more than kScaledSteps.
HWY_INLINE int64_t steps_of_a_scale(const NarrowBlock &block, int64_t k, int64_t depth) {
    const int64_t group = block.scale.column_group, most_steps = least(kScaledSteps, depth - k);
    return block.scale.data == nullptr ? most_steps : least(most_steps, group - (block.depth0 + k) % group);
}

// Some steps of a panel of numbers of 4 bits, from number `at` on.
template <class S>
HWY_INLINE void pack_four_bits(const NarrowBlock &block, int64_t at, int64_t count, int64_t steps, float *out, int64_t panel_width) {
    const S *const data = static_cast<const S *>(block.data);
    if (block.width_stride == 1) {
        for (int64_t k = 0; k < steps; ++k) unpack(data, at + k * block.depth_stride, count, out + k * panel_width);
    } else if (block.depth_stride == 1) {
        HWY_ALIGN float line[kScaledSteps];
        for (int64_t w = 0; w < count; ++w) {
            unpack(data, at + w * block.width_stride, steps, line);
            for (int64_t k = 0; k < steps; ++k) out[k * panel_width + w] = line[k];
        }
    } else {
        for (int64_t k = 0; k < steps; ++k) {
            for (int64_t w = 0; w < count; ++w) {
                const int64_t number = at + k * block.depth_stride + w * block.width_stride;
                out[k * panel_width + w] = four_bits_to_float(data[number >> 1], number & 1);
            }
        }
    }
    for (int64_t k = 0; k < steps; ++k) {
        for (int64_t w = count; w < panel_width; ++w) out[k * panel_width + w] = 0;
    }
}

void pack_narrow(const NarrowBlock &block, int64_t width, int64_t depth, float *panels, int64_t panel_width) {
    with_scaled_storage(block.dtype, [&](auto s) {
        using S = decltype(s);
        const S *const first = static_cast<const S *>(block.data);
        for (int64_t w = 0; w < width; w += panel_width, panels += panel_width * depth) {
            const int64_t count = least(panel_width, width - w);
            for (int64_t k = 0; k < depth;) {
                const int64_t steps = steps_of_a_scale(block, k, depth);
                float *const out = panels + k * panel_width;
                const int64_t at = w * block.width_stride + k * block.depth_stride;
                if constexpr (kIsFourBits<S>) {
                    pack_four_bits<S>(block, block.at + at, count, steps, out, panel_width);
                } else {
                    pack_panel<float, S>(first + at, block.width_stride, block.depth_stride, count, steps, out, panel_width);
                }
                if (block.scale.data != nullptr) scale_steps(block, w, k, count, steps, out, panel_width);
                k += steps;
            }
        }
    });
}

void few_rows_pack_narrow(const GemmView &view, float *a_rows) {
    NarrowBlock block{view.a.data, view.a.dtype, view.a.row, view.a.column, view.a_scale, 0, 0, 0};
    if (reads_along<float>(view)) return pack_narrow(block, view.m, view.k, a_rows, view.m);
    // Each row is a panel of one step whose width is the depth.
    block = {view.a.data, view.a.dtype, view.a.column, 0, view.a_scale.transposed(), 0, 0, 0};
    for (int64_t i = 0; i < view.m; ++i) {
        if (!is_four_bits(view.a.dtype)) block.data = static_cast<const char *>(view.a.data) + i * view.a.row;
        block.at = i * view.a.row;
        block.depth0 = i;
        pack_narrow(block, view.k, 1, a_rows + i * view.k, view.k);
    }
}

// sums = factor sums, or more is added to them factor times: of one row, `count` columns from column j on.
HWY_INLINE void add_scaled(const GemmView &view, int64_t j, int64_t k, int64_t count, bool first, float *sums, const float *more) {
    const Tag<float> d;
    HWY_ALIGN float factors[kScaleRun];
    const ScaleView &scale = view.b_scale;
    const ScaleView across = scale.transposed();
    for (int64_t c = 0; c < count; c += kScaleRun) {
        const int64_t run = least(kScaleRun, count - c);
        if (scale.data != nullptr) look_up(across, j + c, k, run, factors);
        for (int64_t v = 0; v < run; v += kLanes<float>) {
            const int64_t left = run - v;
            const auto factor = scale.data != nullptr ? hn::Load(d, factors + v) : hn::Set(d, 1.0f);
            const auto x = load_first(d, more + c + v, left);
            store_first(d, first ? hn::Mul(factor, x) : hn::MulAdd(factor, x, load_first(d, sums + c + v, left)), sums + c + v, left);
        }
    }
}

// b's columns are contiguous. Each piece of k whose numbers share their scales is summed behind the whole sums, and added.
template <class S>
HWY_NOINLINE void narrow_along(const GemmView &view, const float *a, int64_t j0, int64_t n, float *sums) {
    const S *const b = static_cast<const S *>(view.b.data) + j0;
    const int64_t m = view.m, group = view.b_scale.data != nullptr ? view.b_scale.row_group : view.k;
    float *const more = sums + m * n;
    for (int64_t p = 0; p < view.k;) {
        const int64_t depth = least(least(kFewRowsPiece, view.k - p), group - p % group);
        few_rows_along_piece<float, S>(m, depth, a + p * m, b + p * view.b.row, view.b.row, n, more);
        for (int64_t i = 0; i < m; ++i) add_scaled(view, j0, p, n, p == 0, sums + i * n, more + i * n);
        p += depth;
    }
}

// Dot products of kRows rows of a and kColumns columns of b over all of k: the lanes' sums of each group are scaled as they join.
template <class S, int kRows, int kColumns>
HWY_INLINE void narrow_dots(const GemmView &view, const float *a, const S *b, int64_t j0, float *sums, int64_t sums_step) {
    const Tag<float> d;
    constexpr int64_t kPiece = 1024 * kLanes<float>;  // of one chain in each lane
    const ScaleView &scale = view.b_scale;
    const int64_t k = view.k, group = scale.data != nullptr ? scale.row_group : k;
    const float *factors[kColumns] = {};
    for (int j = 0; j < kColumns && scale.data != nullptr; ++j) factors[j] = scale.data + (j0 + j) / scale.column_group * scale.column;
    Vec<float> total[kRows][kColumns];
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kRows; ++i) {
        ATTILE_CPU_UNROLL
        for (int j = 0; j < kColumns; ++j) total[i][j] = hn::Zero(d);
    }
    int64_t end_of_group = group;
    for (int64_t p = 0; p < k;) {
        if (p == end_of_group) {
            end_of_group += group;
            for (const float *&factor : factors) factor += scale.row;
        }
        const int64_t end = least(end_of_group, p + kPiece);
        Vec<float> acc[kRows][kColumns];
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kRows; ++i) {
            ATTILE_CPU_UNROLL
            for (int j = 0; j < kColumns; ++j) acc[i][j] = hn::Zero(d);
        }
        for (; p + kLanes<float> <= end; p += kLanes<float>) {
            Vec<float> v[kColumns];
            ATTILE_CPU_UNROLL
            for (int j = 0; j < kColumns; ++j) v[j] = load_as(d, b + j * view.b.column + p);
            ATTILE_CPU_UNROLL
            for (int i = 0; i < kRows; ++i) {
                const Vec<float> u = hn::LoadU(d, a + i * k + p);
                ATTILE_CPU_UNROLL
                for (int j = 0; j < kColumns; ++j) acc[i][j] = hn::MulAdd(u, v[j], acc[i][j]);
            }
        }
        if (p < end) {
            for (int i = 0; i < kRows; ++i) {
                const Vec<float> u = load_first(d, a + i * k + p, end - p);
                for (int j = 0; j < kColumns; ++j) acc[i][j] = hn::MulAdd(u, load_as(d, b + j * view.b.column + p, end - p), acc[i][j]);
            }
            p = end;
        }
        ATTILE_CPU_UNROLL
        for (int j = 0; j < kColumns; ++j) {
            const Vec<float> factor = hn::Set(d, factors[j] != nullptr ? *factors[j] : 1.0f);
            ATTILE_CPU_UNROLL
            for (int i = 0; i < kRows; ++i) total[i][j] = hn::MulAdd(acc[i][j], factor, total[i][j]);
        }
    }
    for (int i = 0; i < kRows; ++i) {
        for (int j = 0; j < kColumns; ++j) sums[i * sums_step + j] = hn::GetLane(hn::SumOfLanes(d, total[i][j]));
    }
}

// Several rows: numbers become floats once for all of them, in a piece that stays in the first cache.
inline constexpr int64_t kTileWidth = kFewVectors * kLanes<float>;
inline constexpr int64_t kPieceSteps = 16, kPieceColumns = 512 / kTileWidth * kTileWidth;  // b's columns are contiguous
inline constexpr int64_t kPieceDepth = 1024, kPieceDots = 4;                               // b's k are

// The same of numbers of 4 bits, whose scales have been looked up.
template <class S>
HWY_INLINE void widen_four_bits(const GemmView &view, int64_t j, int64_t p, int64_t depth, int64_t count, const float *factors,
                                float *piece) {
    const Tag<float> d;
    const S *const data = static_cast<const S *>(view.b.data);
    HWY_ALIGN float zeros[kPieceColumns];
    for (float &zero : zeros) zero = 0;
    if (view.b_scale.zero != nullptr) look_up(view.b_scale.transposed().zeros(), j, p, count, zeros);
    for (int64_t k = 0; k < depth; ++k, piece += count) {
        unpack(data, (p + k) * view.b.row + j, count, piece);
        for (int64_t c = 0; c < count; c += kLanes<float>) {
            const int64_t left = count - c;
            const auto number = hn::Sub(load_first(d, piece + c, left), hn::Load(d, zeros + c));
            store_first(d, hn::Mul(number, load_first(d, factors + c, left)), piece + c, left);
        }
    }
}

// piece[k][c] = number times scale, for `count` columns of `depth` steps from (p, j) on; asks for as many steps more.
template <class S>
HWY_INLINE void widen_piece(const GemmView &view, int64_t j, int64_t p, int64_t depth, int64_t count, float *factors, float *piece) {
    const Tag<float> d;
    const ScaleView scale = view.b_scale.transposed();
    static_assert(32 % kPieceSteps == 0);  // no group ends within a piece
    if (scale.data != nullptr) look_up(scale, j, p, count, factors);
    if constexpr (kIsFourBits<S>) return widen_four_bits<S>(view, j, p, depth, count, factors, piece);
    const S *row = static_cast<const S *>(view.b.data) + p * view.b.row + j;
    for (int64_t k = 0; k < depth; ++k, row += view.b.row, piece += count) {
        if (p + k + depth < view.k) {
            for (int64_t c = 0; c < count; c += 64) __builtin_prefetch(row + depth * view.b.row + c, 0, 2);
        }
        int64_t c = 0;
        for (; c + kLanes<float> <= count; c += kLanes<float>)
            hn::StoreU(hn::Mul(load_as(d, row + c), hn::LoadU(d, factors + c)), d, piece + c);
        if (c < count) store_first(d, hn::Mul(load_as(d, row + c, count - c), load_first(d, factors + c, count - c)), piece + c, count - c);
    }
}

// Tiles of sums over a piece of k, as few_rows_along_piece() has them.
template <class S>
HWY_NOINLINE void narrow_tiles(const GemmView &view, const float *a, int64_t j0, int64_t p, int64_t depth, int64_t count, float *factors,
                               float *sums, int64_t sums_step) {
    HWY_ALIGN float piece[kPieceSteps * kPieceColumns];
    widen_piece<S>(view, j0, p, depth, count, factors, piece);
    const int64_t m = view.m, groups = ceil_div(m, kFewRows);
    for (int64_t g = 0; g < groups; ++g) {
        const int64_t i = m * g / groups, rows = m * (g + 1) / groups - i;
        const FewTileFn<float, float> whole = few_tile_fn<float, float, kFewVectors>(rows), narrow = few_tile_fn<float, float, 0>(rows);
        for (int64_t j = 0; j < count;) {
            const int64_t taken = count - j < kTileWidth ? least(count - j, kLanes<float>) : kTileWidth;
            (taken == kTileWidth ? whole : narrow)(depth, a + p * m + i, m, piece + j, count, taken, sums + i * sums_step + j, sums_step,
                                                   nullptr);
            j += taken;
        }
    }
}

template <class S>
HWY_NOINLINE void narrow_rows_along(const GemmView &view, const float *a, int64_t j0, int64_t n, float *sums) {
    const int64_t m = view.m;
    for (int64_t p0 = 0; p0 < view.k; p0 += kFewRowsPiece) {
        float *const part = p0 == 0 ? sums : sums + m * n;
        const int64_t end = least(view.k, p0 + kFewRowsPiece);
        for (int64_t i = 0; i < m * n; ++i) part[i] = 0;
        for (int64_t j = 0; j < n; j += kPieceColumns) {
            HWY_ALIGN float factors[kPieceColumns];
            for (float &factor : factors) factor = 1;
            for (int64_t p = p0; p < end; p += kPieceSteps)
                narrow_tiles<S>(view, a, j0 + j, p, least(kPieceSteps, end - p), least(kPieceColumns, n - j), factors, part + j, n);
        }
        for (int64_t i = 0; p0 > 0 && i < m * n; ++i) sums[i] += part[i];
    }
}

// line[k] = number times scale, for `depth` steps of a column from p on.
template <class S>
HWY_INLINE void widen_column(const GemmView &view, int64_t j, int64_t p, int64_t depth, float *line) {
    const Tag<float> d;
    const ScaleView &scale = view.b_scale;
    const int64_t group = scale.data != nullptr ? scale.row_group : view.k;
    const float *factors = scale.data != nullptr ? scale.data + j / scale.column_group * scale.column : nullptr;
    const S *const column = static_cast<const S *>(view.b.data) + j * view.b.column;
    for (int64_t k = p, end = 0; k < p + depth; k = end) {
        end = least(p + depth, (k / group + 1) * group);
        const auto factor = hn::Set(d, factors != nullptr ? factors[k / group * scale.row] : 1.0f);
        for (; k + kLanes<float> <= end; k += kLanes<float>, line += kLanes<float>) {
            hn::StoreU(hn::Mul(factor, load_as(d, column + k)), d, line);
        }
        if (k < end) {
            store_first(d, hn::Mul(factor, load_as(d, column + k, end - k)), line, end - k);
            line += end - k;
        }
    }
}

// b's k are contiguous: dot products with a piece of some columns.
template <class S>
HWY_NOINLINE void narrow_rows_across(const GemmView &view, const float *a, int64_t j0, int64_t n, float *sums) {
    HWY_ALIGN float piece[kPieceDots * kPieceDepth];
    const int64_t m = view.m, k = view.k;
    for (int64_t i = 0; i < m * n; ++i) sums[i] = 0;
    for (int64_t j = 0; j < n; j += kPieceDots) {
        const int64_t columns = least(kPieceDots, n - j);
        for (int64_t p = 0; p < k; p += kPieceDepth) {
            const int64_t depth = least(kPieceDepth, k - p);
            for (int64_t c = 0; c < columns; ++c) widen_column<S>(view, j0 + j + c, p, depth, piece + c * kPieceDepth);
            if (columns == kPieceDots) {
                dot_columns<float, float, kPieceDots>(m, a + p, k, piece, kPieceDepth, depth, sums + j, n);
                continue;
            }
            for (int64_t c = 0; c < columns; ++c)
                dot_columns<float, float, 1>(m, a + p, k, piece + c * kPieceDepth, kPieceDepth, depth, sums + j + c, n);
        }
    }
}

// Rows from which a piece of floats pays.
inline constexpr int64_t kRowsForAPiece = 5;

// Fewer rows, b's k contiguous.
template <class S, int kColumns>
HWY_INLINE void narrow_dot_rows(const GemmView &view, const float *a, const S *b, int64_t j0, float *sums, int64_t sums_step) {
    switch (view.m) {
        case 1:
            return narrow_dots<S, 1, kColumns>(view, a, b, j0, sums, sums_step);
        case 2:
            return narrow_dots<S, 2, kColumns>(view, a, b, j0, sums, sums_step);
        case 3:
            return narrow_dots<S, 3, kColumns>(view, a, b, j0, sums, sums_step);
        default:
            return narrow_dots<S, 4, kColumns>(view, a, b, j0, sums, sums_step);
    }
}

template <class S>
HWY_NOINLINE void narrow_across(const GemmView &view, const float *a, int64_t j0, int64_t n, float *sums) {
    static_assert(kRowsForAPiece == 5);
    const S *const b = static_cast<const S *>(view.b.data) + j0 * view.b.column;
    int64_t j = 0;
    for (; j + 2 <= n; j += 2) narrow_dot_rows<S, 2>(view, a, b + j * view.b.column, j0 + j, sums + j, n);
    if (j < n) narrow_dot_rows<S, 1>(view, a, b + j * view.b.column, j0 + j, sums + j, n);
}

void few_rows_arrange(const GemmView &view, float *a_rows) {
    if (!reads_along<float>(view)) arrange(view, a_rows, a_rows + view.m * view.k);
}

void few_rows_narrow(const GemmView &view, const float *a_rows, int64_t j0, int64_t count, float *sums) {
    if (is_four_bits(view.b.dtype)) {
        return with_four_bits(view.b.dtype, [&](auto s) {
            using S = decltype(s);
            if (reads_along<float>(view)) return narrow_rows_along<S>(view, a_rows, j0, count, sums);
            const float *const arranged = a_rows + view.m * view.k;
            if (view.b_scale.zero != nullptr) return four_across<S, true>(view, arranged, j0, count, sums);
            four_across<S, false>(view, arranged, j0, count, sums);
        });
    }
    with_narrow_storage(view.b.dtype, [&](auto s) {
        using S = decltype(s);
        if (reads_along<float>(view)) {
            if (view.m >= kRowsForAPiece) return narrow_rows_along<S>(view, a_rows, j0, count, sums);
            narrow_along<S>(view, a_rows, j0, count, sums);
        } else {
            if (view.m >= kRowsForAPiece) return narrow_rows_across<S>(view, a_rows, j0, count, sums);
            narrow_across<S>(view, a_rows, j0, count, sums);
        }
    });
}

template <class T>
const NarrowKernels<T> &kernels() {
    static constexpr NarrowKernels<T> kTable = {&pack_narrow, &few_rows_pack_narrow, &few_rows_narrow, &few_rows_arrange};
    return kTable;
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
