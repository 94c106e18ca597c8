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
#include "gemm/finish-inl.h"
#include "gemm/gemm.h"
#include "gemm/microkernel-inl.h"
#include "gemm/pack-inl.h"
#include "gemm/small-inl.h"
#include "gemm/tile_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

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
                                            1,
                                            kMarkFloats,
                                            0,
                                            0,
                                            false,
                                            kTileRows,
                                            kTileColumns<float>,
                                            ATTILE_CPU_SMALL_MASKS != 0,
                                            &pack_pair_panels,
                                            &pack_pair_panels,
                                            &multiply<float, kGemmRows, kGemmVectors, BrainPair>,
                                            &small<float>,
                                            &few_rows_pack<float>,
                                            &few_rows<float>,
                                            &finish<float>,
                                            nullptr,
                                            nullptr};
template <>
inline constexpr const GemmKernels<float> *kBrainKernels<float> = &kBrainTable;
#endif

template <class T>
inline constexpr const GemmKernels<T> *kTilesKernels = nullptr;
#if ATTILE_CPU_TILES
constexpr GemmKernels<float> kTilesTable = {kTilePanel,
                                            kTilePanel,
                                            kTileStep,
                                            kTileStep / 2,
                                            kMarkFloats,
                                            kTileDepth,
                                            kTileChunk *kTileStep,
                                            true,
                                            kTileRows,
                                            kTileColumns<float>,
                                            ATTILE_CPU_SMALL_MASKS != 0,
                                            &pack_thin_tiles,
                                            &pack_wide_tiles,
                                            &multiply_tiles,
                                            &small<float>,
                                            &few_rows_pack<float>,
                                            &few_rows<float>,
                                            &finish<float>,
                                            nullptr,
                                            nullptr};
template <>
inline constexpr const GemmKernels<float> *kTilesKernels<float> = &kTilesTable;
#endif

template <class T>
const GemmKernels<T> &kernels() {
    static constexpr GemmKernels<T> kTable = {kGemmRows,
                                              kGemmVectors * kLanes<T>,
                                              1,
                                              1,
                                              0,
                                              0,
                                              0,
                                              false,
                                              kTileRows,
                                              kTileColumns<T>,
                                              ATTILE_CPU_SMALL_MASKS != 0,
                                              &pack_panels<T>,
                                              &pack_panels<T>,
                                              &multiply<T, kGemmRows, kGemmVectors>,
                                              &small<T>,
                                              &few_rows_pack<T>,
                                              &few_rows<T>,
                                              &finish<T>,
                                              kBrainKernels<T>,
                                              kTilesKernels<T>};
    return kTable;
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
