// SPDX-License-Identifier: Apache-2.0
// Packing of bfloat16 into panels of tiles (amx/tiles.h).
//
// A panel is marked, behind its last step, where it holds a number below 2^-55, as those of pairs are (gemm/brain-inl.h). What is
// multiplied with it goes through multiply-adds (gemm/tile_products-inl.h).
#if defined(ATTILE_CPU_GEMM_TILES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_GEMM_TILES_INL_H
#undef ATTILE_CPU_GEMM_TILES_INL_H
#else
#define ATTILE_CPU_GEMM_TILES_INL_H
#endif

#include "amx/tiles.h"
#include "gemm/brain-inl.h"

#undef ATTILE_CPU_TILES
#if ATTILE_CPU_BRAIN_PAIRS && defined(ATTILE_CPU_HAS_AMX)
#define ATTILE_CPU_TILES 1
#else
#define ATTILE_CPU_TILES 0
#endif

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR && ATTILE_CPU_TILES

// Elements of a packed panel.
constexpr int64_t tile_panel_size(int64_t depth) { return ceil_div(depth, kTileStep) * kTileStepFloats + kMarkFloats; }

// Up to a vector of numbers of 16 bits, as pairs.
HWY_INLINE Vec<uint32_t> load_pairs(const Brain *row, int64_t count) {
    const Tag<uint16_t> d;
    return hn::BitCast(Tag<uint32_t>(), load_first(d, &row->bits, count));
}

// 16 rows whose numbers lie side by side, one step of the depth: a vector each.
HWY_INLINE void load_rows_16(const Brain *rows, int64_t row_step, int64_t rows_left, int64_t depth_left, Vec<uint32_t> (&r)[16]) {
    for (int i = 0; i < 16; ++i) r[i] = i < rows_left ? load_pairs(rows + i * row_step, depth_left) : hn::Zero(Tag<uint32_t>());
}

// One step of 16 columns of the width, contiguous: a vector of pairs for each two places of the depth.
HWY_INLINE void zip_rows_16(const Brain *rows, int64_t depth_stride, int64_t width_left, int64_t depth_left, Vec<uint32_t> (&r)[16]) {
    for (int i = 0; i < 16; ++i) {
        const Brain *low = rows + 2 * i * depth_stride;
        r[i] = 2 * i < depth_left && width_left > 0 ? zip_rows(low, 2 * i + 1 < depth_left ? low + depth_stride : nullptr, width_left)
                                                    : hn::Zero(Tag<uint32_t>());
    }
}

HWY_INLINE void look_at_all(const Vec<uint32_t> (&r)[16], TinySearch &search) {
    for (int i = 0; i < 16; ++i) search.look_at_pairs(r[i]);
}

// out[i * step ..] = r[i]
HWY_INLINE void store_16(const Vec<uint32_t> (&r)[16], float *out, int64_t step) {
    const Tag<float> d;
    for (int i = 0; i < 16; ++i) hn::StoreU(hn::BitCast(d, r[i]), d, out + i * step);
}

// Numbers at any strides, one pair at a time: pair p of row or column w of one step to out(w, p).
template <class Out>
HWY_INLINE void pair_step_anyhow(const Brain *source, int64_t width_stride, int64_t depth_stride, int64_t width_left, int64_t depth_left,
                                 TinySearch &search, Out &&out) {
    for (int64_t w = 0; w < kTilePanel; ++w) {
        for (int64_t p = 0; p < kTileStep / 2; ++p) {
            uint32_t pair = 0;
            if (w < width_left && 2 * p < depth_left) {
                const Brain *low = source + w * width_stride + 2 * p * depth_stride;
                pair = low->bits | static_cast<uint32_t>(2 * p + 1 < depth_left ? low[depth_stride].bits : 0) << 16;
            }
            search.look_at_pairs(hn::Set(Tag<uint32_t>(), pair));
            std::memcpy(out(w, p), &pair, sizeof pair);
        }
    }
}

// What is packed a few steps later: so many rows, so far from the current ones.
struct StepSoon {
    int64_t rows, offset;
};
inline constexpr int64_t kStepsAhead = 8;

// One step of one thin panel.
HWY_INLINE void pack_thin_step(const Brain *source, int64_t width_stride, int64_t depth_stride, int64_t width_left, int64_t depth_left,
                               const StepSoon &soon, float *out, TinySearch &search) {
    Vec<uint32_t> r[16];
    if (depth_stride == 1) {
        const Tag<float> d;
        const int64_t rows = least(width_left, kTilePanel);
        for (int64_t i = 0; i < rows; ++i, out += 16) {
            const Brain *const row = source + i * width_stride;
            if (i < soon.rows) __builtin_prefetch(row + soon.offset, 0, 2);
            const auto pairs = load_pairs(row, depth_left);
            search.look_at_pairs(pairs);
            hn::StoreU(hn::BitCast(d, pairs), d, out);
        }
        for (int64_t i = rows; i < kTilePanel; ++i, out += 16) hn::StoreU(hn::Zero(d), d, out);
    } else if (width_stride == 1) {
        for (int64_t h = 0; h < kTilePanel; h += 16) {
            zip_rows_16(source + h, depth_stride, width_left - h, depth_left, r);
            look_at_all(r, search);
            transpose_16(r);
            store_16(r, out + 16 * h, 16);
        }
    } else {
        pair_step_anyhow(source, width_stride, depth_stride, width_left, depth_left, search,
                         [&](int64_t w, int64_t p) HWY_ATTR { return out + 16 * w + p; });
    }
}

// One step of one wide panel.
HWY_INLINE void pack_wide_step(const Brain *source, int64_t width_stride, int64_t depth_stride, int64_t width_left, int64_t depth_left,
                               float *out, TinySearch &search) {
    Vec<uint32_t> r[16];
    if (width_stride != 1 && depth_stride != 1) {
        pair_step_anyhow(source, width_stride, depth_stride, width_left, depth_left, search,
                         [&](int64_t w, int64_t p) HWY_ATTR { return out + kTilePanel * p + w; });
        return;
    }
    for (int64_t h = 0; h < kTilePanel; h += 16) {
        if (width_stride == 1) {
            zip_rows_16(source + h, depth_stride, width_left - h, depth_left, r);
            look_at_all(r, search);
        } else {
            load_rows_16(source + h * width_stride, width_stride, width_left - h, depth_left, r);
            look_at_all(r, search);
            transpose_16(r);
        }
        store_16(r, out + h, kTilePanel);
    }
}

// One panel after the other.
template <bool kWide>
HWY_NOINLINE void pack_tile_panels_in_turn(const Brain *source, int64_t width_stride, int64_t depth_stride, int64_t width, int64_t depth,
                                           float *panels) {
    const int64_t panel_step = tile_panel_size(depth), steps = ceil_div(depth, kTileStep);
    for (int64_t w = 0; w < width; w += kTilePanel, source += kTilePanel * width_stride, panels += panel_step) {
        TinySearch search;
        for (int64_t s = 0; s < steps; ++s) {
            const Brain *const from = source + s * kTileStep * depth_stride;
            float *const out = panels + s * kTileStepFloats;
            const int64_t width_left = width - w, depth_left = depth - s * kTileStep;
            if constexpr (kWide) {
                pack_wide_step(from, width_stride, depth_stride, width_left, depth_left, out, search);
            } else {
                const bool here = s + kStepsAhead < steps;
                const StepSoon soon{here ? width_left : width_left - kTilePanel,
                                    here ? kStepsAhead * kTileStep : kTilePanel * width_stride + (kStepsAhead - steps) * kTileStep};
                pack_thin_step(from, width_stride, depth_stride, width_left, depth_left, soon, out, search);
            }
        }
        write_mark(search, panels + panel_step - kMarkFloats);
    }
}

// Panels of a row-major thin operand's transpose, step after step over all of them: a page of memory is left for good.
inline HWY_NOINLINE void pack_thin_across(const Brain *source, int64_t depth_stride, int64_t width, int64_t depth, float *panels) {
    const int64_t panel_step = tile_panel_size(depth);
    for (int64_t w0 = 0; w0 < width; w0 += kPanelsAtOnce * kTilePanel, panels += kPanelsAtOnce * panel_step) {
        const int64_t count = least(kPanelsAtOnce, ceil_div(width - w0, kTilePanel));
        TinySearch search[kPanelsAtOnce];
        for (int64_t k = 0; k < depth; k += kTileStep) {
            for (int64_t n = 0; n < count; ++n) {
                const int64_t w = w0 + n * kTilePanel;
                pack_thin_step(source + w + k * depth_stride, 1, depth_stride, width - w, depth - k, StepSoon{0, 0},
                               panels + n * panel_step + k / kTileStep * kTileStepFloats, search[n]);
            }
        }
        for (int64_t n = 0; n < count; ++n) write_mark(search[n], panels + (n + 1) * panel_step - kMarkFloats);
    }
}

// Rows that are prefetched ahead, into L2: to L1 too few lines can be on their way.
inline constexpr int64_t kWideRowsAhead = 8;
// So few numbers are likely in L2.
inline constexpr int64_t kFewToAsk = 128 << 10;

// Whole wide panels of rows that lie side by side, two rows at a time over kPanelsAtOnce of them: memory is read in long runs. A tiny
// number marks them all.
inline HWY_NOINLINE void zip_wide_panels(const Brain *rows, int64_t depth_stride, int64_t count, int64_t depth, float *panels) {
    const Tag<float> d;
    const Tag<uint16_t> d16;
    const Tag<uint64_t> d64;
    HWY_ALIGN static constexpr uint64_t kLeft[8] = {0, 1, 8, 9, 2, 3, 10, 11}, kRight[8] = {4, 5, 12, 13, 6, 7, 14, 15};
    const auto left = hn::Load(d64, kLeft), right = hn::Load(d64, kRight);
    const int64_t panel_step = tile_panel_size(depth), all = round_up(depth, kTileStep);
    const int64_t asked = count * kTilePanel * depth > kFewToAsk ? depth : 0;
    TinySearch search;
    for (int64_t k = 0; k < all; k += 2, rows += 2 * depth_stride) {
        for (int64_t ahead = kWideRowsAhead; ahead < kWideRowsAhead + 2 && k + ahead < asked; ++ahead) {
            const Brain *soon = rows + ahead * depth_stride;
            for (int64_t w = 0; w < count * kTilePanel; w += 32) __builtin_prefetch(soon + w, 0, 2);
        }
        for (int64_t n = 0; n < count; ++n) {
            const Brain *const row = rows + n * kTilePanel;
            const auto low = k < depth ? hn::LoadU(d16, &row->bits) : hn::Zero(d16);
            const auto high = k + 1 < depth ? hn::LoadU(d16, &(row + depth_stride)->bits) : hn::Zero(d16);
            search.look(low);
            search.look(high);
            const auto a = hn::BitCast(d64, hn::InterleaveLower(d16, low, high)), b = hn::BitCast(d64, hn::InterleaveUpper(d16, low, high));
            float *const pairs = panels + n * panel_step + k / 2 * kTilePanel;
            hn::StoreU(hn::BitCast(d, Vec<uint64_t>{_mm512_permutex2var_epi64(a.raw, left.raw, b.raw)}), d, pairs);
            hn::StoreU(hn::BitCast(d, Vec<uint64_t>{_mm512_permutex2var_epi64(a.raw, right.raw, b.raw)}), d, pairs + 16);
        }
    }
    for (int64_t n = 0; n < count; ++n) write_mark(search, panels + (n + 1) * panel_step - kMarkFloats);
}

// As pack_panels, into panels of tiles.
inline void pack_thin_tiles(const void *source, int32_t /*dtype*/, int64_t offset, int64_t width_stride, int64_t depth_stride,
                            int64_t width, int64_t depth, float *panels, int64_t /*panel_width*/) {
    const Brain *first = static_cast<const Brain *>(source) + offset;
    if (width_stride == 1 && depth_stride != 1) {
        pack_thin_across(first, depth_stride, width, depth, panels);
    } else {
        pack_tile_panels_in_turn<false>(first, width_stride, depth_stride, width, depth, panels);
    }
}

inline void pack_wide_tiles(const void *source, int32_t /*dtype*/, int64_t offset, int64_t width_stride, int64_t depth_stride,
                            int64_t width, int64_t depth, float *panels, int64_t /*panel_width*/) {
    const Brain *first = static_cast<const Brain *>(source) + offset;
    const int64_t panel_step = tile_panel_size(depth);
    int64_t w = 0;
    while (width_stride == 1 && w + kTilePanel <= width) {
        const int64_t count = least(kPanelsAtOnce, (width - w) / kTilePanel);
        zip_wide_panels(first + w, depth_stride, count, depth, panels);
        panels += count * panel_step;
        w += count * kTilePanel;
    }
    if (w < width) pack_tile_panels_in_turn<true>(first + w * width_stride, width_stride, depth_stride, width - w, depth, panels);
}

#endif  // HWY_TARGET != HWY_SCALAR && ATTILE_CPU_TILES
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
