// SPDX-License-Identifier: Apache-2.0
// Matrix multiplication's kernels, for sums of type T.
#if defined(ATTILE_CPU_GEMM_KERNELS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_GEMM_KERNELS_INL_H
#undef ATTILE_CPU_GEMM_KERNELS_INL_H
#else
#define ATTILE_CPU_GEMM_KERNELS_INL_H
#endif

#include "gemm/brain-inl.h"
#include "gemm/few_rows-inl.h"
#include "gemm/gemm.h"
#include "gemm/microkernel-inl.h"
#include "gemm/pack-inl.h"
#include "gemm/small-inl.h"
#include "math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

// `count` elements of a strided row to T, and back.
template <class T>
HWY_NOINLINE void load_row(const MatrixView &view, int64_t i, int64_t j, int64_t count, T *row) {
    with_storage<T>(view.dtype, [&](auto s) {
        using S = decltype(s);
        const S *p = static_cast<const S *>(view.data) + i * view.row + j * view.column;
        if (view.column == 1) {
            const Tag<T> d;
            for (int64_t c = 0; c < count; c += kLanes<T>) store_first(d, load_as(d, p + c, count - c), row + c, count - c);
        } else {
            for (int64_t c = 0; c < count; ++c) row[c] = to_compute<T>(p[c * view.column]);
        }
    });
}

template <class T>
HWY_NOINLINE void store_row(const MatrixView &view, int64_t i, int64_t j, int64_t count, const T *row) {
    with_storage<T>(view.dtype, [&](auto s) {
        using S = decltype(s);
        S *p = static_cast<S *>(view.data) + i * view.row + j * view.column;
        if (view.column == 1) {
            const Tag<T> d;
            for (int64_t c = 0; c < count; c += kLanes<T>) store_as(d, load_first(d, row + c, count - c), p + c, count - c);
        } else {
            for (int64_t c = 0; c < count; ++c) p[c * view.column] = to_storage<S>(row[c]);
        }
    });
}

// row = factor row + other
template <class T>
HWY_INLINE void scale_and_add(T factor, T *row, const T *other, int64_t count) {
    const Tag<T> d;
    for (int64_t c = 0; c < count; c += kLanes<T>) {
        const auto sum = hn::MulAdd(hn::Set(d, factor), load_first(d, row + c, count - c), load_first(d, other + c, count - c));
        store_first(d, sum, row + c, count - c);
    }
}

template <class T>
HWY_INLINE void scale(T factor, T *row, int64_t count) {
    const Tag<T> d;
    for (int64_t c = 0; c < count; c += kLanes<T>) {
        store_first(d, hn::Mul(hn::Set(d, factor), load_first(d, row + c, count - c)), row + c, count - c);
    }
}

// The epilogue of a piece for a rectangle whose sums are in `sums` (overwritten): everything that the micro-kernel's own end does not do.
template <class T>
void finish_rectangle(const GemmView &view, T *sums, int64_t sums_step, int64_t i0, int64_t j0, int64_t rows, int64_t columns, bool first,
                      bool last, T *partial, int64_t partial_step) {
    constexpr int64_t kRun = 64;
    const T alpha = static_cast<T>(view.alpha);
    const bool adds_c = view.beta != 0 && view.c.data != nullptr && (partial != nullptr ? last : first);
    const bool adds_bias = last && view.bias.data != nullptr;
    T sum[kRun], other[kRun];
    for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; j += kRun) {
            const int64_t count = columns - j < kRun ? columns - j : kRun;
            T *row = sums + i * sums_step + j;
            T *before = partial == nullptr ? nullptr : partial + i * partial_step + j;
            if (before != nullptr && !last) {
                if (first) {
                    for (int64_t c = 0; c < count; ++c) before[c] = 0;
                }
                scale_and_add(T{1}, row, before, count);
                for (int64_t c = 0; c < count; ++c) before[c] = row[c];
                continue;
            }
            // All that is added to alpha times the product is summed first, so that the result is rounded once.
            bool adds = false;
            const auto add = [&](T factor, bool first_term) HWY_ATTR {
                if (first_term) {
                    for (int64_t c = 0; c < count; ++c) sum[c] = factor * other[c];
                } else {
                    for (int64_t c = 0; c < count; ++c) sum[c] += factor * other[c];
                }
            };
            if (before != nullptr && !first) scale_and_add(T{1}, row, before, count);
            if (before == nullptr && !first) {
                load_row(view.d, i0 + i, j0 + j, count, other);
                add(T{1}, true);
                adds = true;
            }
            if (adds_c) {
                load_row(view.c, i0 + i, j0 + j, count, other);
                add(static_cast<T>(view.beta), !adds);
                adds = true;
            }
            if (adds_bias) {
                load_row(view.bias, i0 + i, j0 + j, count, other);
                add(T{1}, !adds);
                adds = true;
            }
            if (adds) {
                scale_and_add(alpha, row, sum, count);
            } else if (alpha != 1) {
                scale(alpha, row, count);
            }
            if (last && view.activation != ATTILE_ACTIVATION_NONE) activate(view.activation, row, count);
            store_row(view.d, i0 + i, j0 + j, count, row);
        }
    }
}

template <class T>
void finish(const GemmView &view, T *sums, int64_t sums_step, int64_t i0, int64_t j0, int64_t rows, int64_t columns) {
    finish_rectangle<T>(view, sums, sums_step, i0, j0, rows, columns, true, true, nullptr, 0);
}

// tile[v]: the kernel for v + 1 vectors of columns.
template <class T, int kRows, int kVectors, class Step>
HWY_INLINE void select_tiles(int64_t rows, bool by_rows, TileFn<T> *tile) {
    const auto select = [&]<int... kVector>(std::integer_sequence<int, kVector...>) HWY_ATTR {
        if constexpr (std::is_same_v<Step, OneNumber>) {
            if (by_rows) {
                ((tile[kVector] = tile_fn<T, kRows, kVector + 1, true>(rows)), ...);
                return;
            }
        }
        ((tile[kVector] = tile_fn<T, kRows, kVector + 1, false, Step>(rows)), ...);
    };
    select(std::make_integer_sequence<int, kVectors>{});
}

#if ATTILE_CPU_BRAIN_PAIRS
// A tile with a marked panel of pairs, whose tiny numbers are kept: the sums of whole vectors of its columns.
inline void kept_tile(int64_t depth, const float *thin, int64_t thin_step, const float *wide, int64_t rows, int64_t columns, float *sums,
                      int64_t sums_step) {
    const TileFn<float> fn = tile_fn<float, kGemmRows, 1, false, KeptBrainPair>(rows);
    for (int64_t j = 0; j < columns; j += kLanes<float>) {
        const TileTarget<float> target{sums + j, sums_step, nullptr, 0, 1.0f, 0.0f, nullptr, 0, 0};
        fn(depth, thin, thin_step, wide + j, sums_step, target);
    }
}
#endif

// d = alpha times the sums of a tile, in a type of 16 bits and side by side along the row.
template <class T>
HWY_NOINLINE void store_short(const GemmView &view, const T *sums, int64_t sums_step, int64_t i0, int64_t j0, int64_t rows,
                              int64_t columns) {
    with_storage<T>(view.d.dtype, [&](auto s) HWY_ATTR {
        using S = decltype(s);
        const Tag<T> d;
        const Vec<T> alpha = hn::Set(d, static_cast<T>(view.alpha));
        S *out = static_cast<S *>(view.d.data) + i0 * view.d.row + j0;
        for (int64_t i = 0; i < rows; ++i, sums += sums_step, out += view.d.row) {
            for (int64_t j = 0; j < columns; j += kLanes<T>) store_as(d, hn::Mul(alpha, hn::Load(d, sums + j)), out + j, columns - j);
        }
    });
}

// A block's tiles, in an order that suits its operands' layout.
template <class T, int kRows, int kVectors, class Step = OneNumber>
void multiply(const GemmView &view, const GemmBlock<T> &block) {
    constexpr int64_t kColumns = kVectors * kLanes<T>;
    HWY_ALIGN T scratch[static_cast<size_t>(kRows * kColumns)];
    constexpr int32_t kOwnType = sizeof(T) == 4 ? ATTILE_F32 : ATTILE_F64;
    const bool reads_c = block.first && view.beta != 0 && view.c.data != nullptr;
    const bool epilogue = block.last && (view.bias.data != nullptr || view.activation != ATTILE_ACTIVATION_NONE);
    const bool plain_d = view.d.dtype == kOwnType && view.d.column == 1 && !epilogue;
    const bool plain = plain_d && block.partial == nullptr && (!reads_c || view.c.column == 1);
    const bool short_d = sizeof(T) == 4 && dtype_bytes(view.d.dtype) == 2 && view.d.column == 1 && !epilogue && !reads_c && block.first &&
                         block.last && block.partial == nullptr;
    T *const d = static_cast<T *>(view.d.data);
    const T *const c = static_cast<const T *>(view.c.data);
    // The next panel of the thin operand, shared out over the rows of this one's tiles.
    const int64_t tiles = ceil_div(block.columns, kColumns), row_lines = ceil_div(block.depth * static_cast<int64_t>(sizeof(T)), 64);
    const int64_t soon_lines = ceil_div(row_lines, tiles);
    const int64_t soon_step = block.thin_by_rows ? block.thin_step * static_cast<int64_t>(sizeof(T)) : soon_lines * 64;
    const auto plain_target = [&](int64_t row, int64_t column) HWY_ATTR {
        TileTarget<T> target{d + row * view.d.row + column, view.d.row, nullptr, 0, static_cast<T>(view.alpha), T{1}, nullptr, 0, 0};
        if (!block.first) {
            target.in = target.out;
            target.in_step = target.out_step;
        } else if (reads_c) {
            target.in = c + row * view.c.row + column;
            target.in_step = view.c.row;
            target.beta = static_cast<T>(view.beta);
        }
        return target;
    };
    const auto one_tile = [&](int64_t i, int64_t rows, int64_t j, int64_t columns, TileFn<T> fn, const char *soon) HWY_ATTR {
        const T *thin = block.thin + i / kRows * block.thin_panel_step;
        const T *wide = block.wide + j / kColumns * block.wide_panel_step;
        const int64_t row = block.row0 + i, column = block.column0 + j;
        bool marked = false;
#if ATTILE_CPU_BRAIN_PAIRS
        if constexpr (!std::is_same_v<Step, OneNumber>) {
            marked = block.depth > 0 && (is_marked(thin + block.depth * kRows) || is_marked(wide + block.depth * kColumns));
            if (marked) kept_tile(block.depth, thin, block.thin_step, wide, rows, columns, scratch, kColumns);
        }
#endif
        if (!marked && plain && columns % kLanes<T> == 0) {
            TileTarget<T> target = plain_target(row, column);
            target.soon = soon;
            target.soon_step = soon_step;
            target.soon_lines = soon_lines;
            fn(block.depth, thin, block.thin_step, wide, kColumns, target);
            return;
        }
        const TileTarget<T> target{scratch, kColumns, nullptr, 0, T{1}, T{0}, nullptr, 0, 0};
        if (!marked) fn(block.depth, thin, block.thin_step, wide, kColumns, target);
        if (plain) {
            store_narrow(scratch, kColumns, plain_target(row, column), rows, columns);
            return;
        }
        if (short_d) {
            store_short(view, scratch, kColumns, row, column, rows, columns);
            return;
        }
        T *partial = block.partial == nullptr ? nullptr : block.partial + i * block.partial_step + j;
        finish_rectangle<T>(view, scratch, kColumns, row, column, rows, columns, block.first, block.last, partial, block.partial_step);
    };
    TileFn<T> tile[kVectors], last_tile[kVectors];
    const int64_t last_rows = block.rows % kRows;
    select_tiles<T, kRows, kVectors, Step>(kRows, block.thin_by_rows, tile);
    select_tiles<T, kRows, kVectors, Step>(last_rows == 0 ? kRows : last_rows, block.thin_by_rows, last_tile);
    // The outer loop is over panels of the thin operand: one stays in L1 while the wide block streams from L2. Each tile prefetches a share
    // of the next panel.
    for (int64_t i = 0; i < block.rows; i += kRows) {
        const int64_t rows = least(kRows, block.rows - i);
        const T *next = block.thin + (i / kRows + 1) * block.thin_panel_step;
        const char *soon = i + kRows < block.rows ? reinterpret_cast<const char *>(next) : nullptr;
        for (int64_t j = 0; j < block.columns; j += kColumns) {
            const int64_t columns = least(kColumns, block.columns - j), v = (columns - 1) / kLanes<T>;
            one_tile(i, rows, j, columns, rows == kRows ? tile[v] : last_tile[v], soon);
            if (soon != nullptr) soon += block.thin_by_rows ? soon_lines * 64 : kRows * soon_step;
        }
    }
}

// A small product. Its tiles are ordered so that each line of the wide operand, which is scattered over memory, is read in one pass.
template <class T>
void small(const SmallProduct<T> &p) {
    if (p.view == nullptr) {
        small_tiles(p, [](int64_t, int64_t, int64_t, int64_t, const T *, int64_t) HWY_ATTR {});
        return;
    }
    small_tiles(p, [&](int64_t i, int64_t rows, int64_t j, int64_t columns, T *sums, int64_t sums_step) HWY_ATTR {
        finish_rectangle<T>(*p.view, sums, sums_step, p.row0 + i, p.column0 + j, rows, columns, true, true, nullptr, 0);
    });
}

// NULL where sums are no floats, or a processor of the target cannot have the instruction.
template <class T>
inline constexpr const GemmKernels<T> *kBrainKernels = nullptr;
#if ATTILE_CPU_BRAIN_PAIRS
constexpr GemmKernels<float> kBrainTable = {kGemmRows,
                                            kGemmVectors *kLanes<float>,
                                            2,
                                            kMarkFloats,
                                            kTileRows,
                                            kTileColumns<float>,
                                            ATTILE_CPU_SMALL_MASKS != 0,
                                            &pack_pair_panels,
                                            &multiply<float, kGemmRows, kGemmVectors, BrainPair>,
                                            &small<float>,
                                            &few_rows_pack<float>,
                                            &few_rows<float>,
                                            &finish<float>,
                                            nullptr};
template <>
inline constexpr const GemmKernels<float> *kBrainKernels<float> = &kBrainTable;
#endif

template <class T>
const GemmKernels<T> &kernels() {
    static constexpr GemmKernels<T> kTable = {kGemmRows,
                                              kGemmVectors * kLanes<T>,
                                              1,
                                              0,
                                              kTileRows,
                                              kTileColumns<T>,
                                              ATTILE_CPU_SMALL_MASKS != 0,
                                              &pack_panels<T>,
                                              &multiply<T, kGemmRows, kGemmVectors>,
                                              &small<T>,
                                              &few_rows_pack<T>,
                                              &few_rows<T>,
                                              &finish<T>,
                                              kBrainKernels<T>};
    return kTable;
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
