// SPDX-License-Identifier: Apache-2.0
// Products of bfloat16 in pairs along the depth (AVX512-BF16): packing, and the mark of a panel with tiny numbers.
//
// A panel of pairs is one of floats (gemm/pack-inl.h) in whose places two numbers lie, the first in the low half; an odd depth ends with a
// zero. VDPBF16PS takes numbers and sums below the smallest normal float for zeros. Where every number is 0 or at least 2^-55 there are
// none: each product is a multiple of 2^-124, and so is each sum. So a panel that holds a smaller number is marked, behind its last step,
// and what is multiplied with it goes through multiply-adds, in the same order: the same bits as if the instruction kept such numbers.
#if defined(ATTILE_CPU_BRAIN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_BRAIN_INL_H
#undef ATTILE_CPU_BRAIN_INL_H
#else
#define ATTILE_CPU_BRAIN_INL_H
#endif

#include "gemm/gemm.h"
#include "gemm/pack-inl.h"
#include "simd-inl.h"

// The processor may have the instruction; detect.cpp finds out.
#undef ATTILE_CPU_BRAIN_PAIRS
#if HWY_TARGET == HWY_AVX3
#define ATTILE_CPU_BRAIN_PAIRS 1
#else
#define ATTILE_CPU_BRAIN_PAIRS 0
#endif

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR && ATTILE_CPU_BRAIN_PAIRS

// The search for a number other than 0 below 2^-55 in magnitude: of all magnitudes less 1, where 0 wraps to the top, the lowest.
class TinySearch {
  public:
    TinySearch() : lowest_(hn::Set(Tag<uint16_t>(), uint16_t{0xffff})) {}
    HWY_INLINE void look(Vec<uint16_t> numbers) {
        const Tag<uint16_t> d;
        const auto magnitude = hn::And(numbers, hn::Set(d, uint16_t{0x7fff}));
        lowest_ = hn::Min(lowest_, hn::Sub(magnitude, hn::Set(d, uint16_t{1})));
    }
    HWY_INLINE void look_at_pairs(Vec<uint32_t> pairs) { look(hn::BitCast(Tag<uint16_t>(), pairs)); }
    HWY_NOINLINE void look_at_row(const Brain *row, int64_t count) {
        const Tag<uint16_t> d;
        for (int64_t k = 0; k < count; k += kLanes<uint16_t>) look(load_first(d, &row->bits + k, count - k));
    }
    bool found() const {
        const Tag<uint16_t> d;
        constexpr uint16_t kLeast = 72 << 7;  // 2^-55
        return !hn::AllFalse(d, hn::Lt(lowest_, hn::Set(d, static_cast<uint16_t>(kLeast - 1))));
    }
    // The exponent, as stored, of the smallest number other than 0; above all where there is none.
    int64_t lowest_exponent() const {
        const Tag<uint16_t> d;
        return (hn::GetLane(hn::MinOfLanes(d, lowest_)) + 1) >> 7;
    }

  private:
    Vec<uint16_t> lowest_;
};

// Up to a vector of pairs from two rows: numbers of the first in low halves. NULL: a row of zeros.
HWY_INLINE Vec<uint32_t> zip_rows(const Brain *low, const Brain *high, int64_t count) {
    const Tag<uint32_t> d;
    const hn::Rebind<uint16_t, Tag<uint32_t>> d16;
    const auto first = hn::PromoteTo(d, load_first(d16, &low->bits, count));
    if (high == nullptr) return first;
    return hn::Or(first, hn::ShiftLeft<16>(hn::PromoteTo(d, load_first(d16, &high->bits, count))));
}

// pairs[k / 2 * step + w] = (rows[k * depth_stride + w], rows[(k + 1) * depth_stride + w]) for w < width, 0 up to step: rows side by side.
HWY_INLINE void zip_panel(const Brain *rows, int64_t depth_stride, int64_t width, int64_t depth, float *pairs, int64_t step,
                          TinySearch &search) {
    const Tag<uint32_t> d;
    const Tag<float> df;
    for (int64_t k = 0; k < depth; k += 2, rows += 2 * depth_stride, pairs += step) {
        const Brain *high = k + 1 < depth ? rows + depth_stride : nullptr;
        for (int64_t w = 0; w < step; w += kLanes<float>) {
            const Vec<uint32_t> x = w < width ? zip_rows(rows + w, high == nullptr ? nullptr : high + w, width - w) : hn::Zero(d);
            search.look_at_pairs(x);
            store_first(df, hn::BitCast(df, x), pairs + w, step - w);
        }
    }
}

// pairs[p * step + w] = the pair p of row w, whose numbers lie side by side; 0 from `width` on.
HWY_INLINE void transpose_panel(const Brain *rows, int64_t width_stride, int64_t width, int64_t depth, float *pairs, int64_t step,
                                TinySearch &search) {
    const hn::FixedTag<uint16_t, 8> d16;
    const hn::FixedTag<float, 4> d;
    for (int64_t w = 0; w < step; w += 4) {
        const Brain *row = rows + w * width_stride;
        for (int64_t i = w; i < w + 4 && i < width; ++i) search.look_at_row(rows + i * width_stride, depth);
        int64_t p = 0;  // in pairs
        if (w + 4 <= width) {
            for (; 2 * p + 8 <= depth; p += 4) {
                hn::Vec<decltype(d)> square[4];
                for (int i = 0; i < 4; ++i) square[i] = hn::BitCast(d, hn::LoadU(d16, &(row + i * width_stride + 2 * p)->bits));
                transpose_square<float>(d, square);
                for (int i = 0; i < 4; ++i) hn::StoreU(square[i], d, pairs + (p + i) * step + w);
            }
        }
        // What is left of the depth, or rows that make no square: one row after the other.
        for (int64_t i = w; i < w + 4 && i < step; ++i) {
            const Brain *from = rows + i * width_stride;
            for (int64_t q = p; 2 * q < depth; ++q) {
                uint32_t pair = 0;
                if (i < width) std::memcpy(&pair, from + 2 * q, 2 * q + 1 < depth ? 4 : 2);
                std::memcpy(pairs + q * step + i, &pair, 4);
            }
        }
    }
}

HWY_INLINE void pair_panel_anyhow(const Brain *source, int64_t width_stride, int64_t depth_stride, int64_t width, int64_t depth,
                                  float *pairs, int64_t step, TinySearch &search) {
    for (int64_t k = 0; k < depth; k += 2, pairs += step) {
        for (int64_t w = 0; w < step; ++w) {
            uint32_t pair = 0;
            if (w < width) {
                const Brain *low = source + w * width_stride + k * depth_stride;
                pair = low->bits | static_cast<uint32_t>(k + 1 < depth ? low[depth_stride].bits : 0) << 16;
            }
            search.look_at_pairs(hn::Set(Tag<uint32_t>(), pair));
            std::memcpy(pairs + w, &pair, 4);
        }
    }
}

// Of 64 bytes behind a panel's pairs, the first four are its mark.
inline constexpr int64_t kMarkFloats = 16;
HWY_INLINE bool is_marked(const float *panel_end) {
    uint32_t mark = 0;
    std::memcpy(&mark, panel_end, sizeof mark);
    return mark != 0;
}

HWY_INLINE void write_mark(const TinySearch &search, float *panel_end) {
    const uint32_t mark = search.found() ? 1 : 0;
    std::memcpy(panel_end, &mark, sizeof mark);
}

inline HWY_NOINLINE void pack_pair_panel(const Brain *source, int64_t width_stride, int64_t depth_stride, int64_t width, int64_t depth,
                                         float *panel, int64_t panel_width) {
    TinySearch search;
    if (width_stride == 1) {
        zip_panel(source, depth_stride, width, depth, panel, panel_width, search);
    } else if (depth_stride == 1) {
        transpose_panel(source, width_stride, width, depth, panel, panel_width, search);
    } else {
        pair_panel_anyhow(source, width_stride, depth_stride, width, depth, panel, panel_width, search);
    }
    write_mark(search, panel + panel_width * ceil_div(depth, 2));
}

// Whole panels at most kPanelsAtOnce, row after row of the source over all of them: memory is read in long runs.
inline constexpr int64_t kPanelsAtOnce = 16;
inline HWY_NOINLINE void zip_panels(const Brain *rows, int64_t depth_stride, int64_t count, int64_t depth, float *panels,
                                    int64_t panel_width, int64_t panel_step) {
    const Tag<float> d;
    TinySearch search[kPanelsAtOnce];
    for (int64_t k = 0; k < depth; k += 2, rows += 2 * depth_stride) {
        const Brain *const high = k + 1 < depth ? rows + depth_stride : nullptr;
        for (int64_t ahead = kRowsAhead; ahead < kRowsAhead + 2 && k + ahead < depth; ++ahead) {
            const Brain *soon = rows + ahead * depth_stride;
            for (int64_t w = 0; w < count * panel_width; w += 32) __builtin_prefetch(soon + w);
        }
        for (int64_t n = 0; n < count; ++n) {
            float *const pairs = panels + n * panel_step + k / 2 * panel_width;
            for (int64_t w = 0; w < panel_width; w += kLanes<float>) {
                const int64_t at = n * panel_width + w;
                const Vec<uint32_t> x = zip_rows(rows + at, high == nullptr ? nullptr : high + at, kLanes<float>);
                search[n].look_at_pairs(x);
                hn::StoreU(hn::BitCast(d, x), d, pairs + w);
            }
        }
    }
    for (int64_t n = 0; n < count; ++n) write_mark(search[n], panels + (n + 1) * panel_step - kMarkFloats);
}

// As pack_panels, of bfloat16.
inline void pack_pair_panels(const void *source, int32_t /*dtype*/, int64_t offset, int64_t width_stride, int64_t depth_stride,
                             int64_t width, int64_t depth, float *panels, int64_t panel_width) {
    const Brain *first = static_cast<const Brain *>(source) + offset;
    const int64_t panel_step = panel_width * ceil_div(depth, 2) + kMarkFloats;
    int64_t w = 0;
    while (width_stride == 1 && panel_width % kLanes<float> == 0 && w + panel_width <= width) {
        const int64_t count = least(kPanelsAtOnce, (width - w) / panel_width);
        zip_panels(first + w, depth_stride, count, depth, panels, panel_width, panel_step);
        panels += count * panel_step;
        w += count * panel_width;
    }
    for (; w < width; w += panel_width, panels += panel_step) {
        pack_pair_panel(first + w * width_stride, width_stride, depth_stride, least(width - w, panel_width), depth, panels, panel_width);
    }
}

#endif  // HWY_TARGET != HWY_SCALAR && ATTILE_CPU_BRAIN_PAIRS
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
