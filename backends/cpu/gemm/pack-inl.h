// SPDX-License-Identifier: Apache-2.0
// Packing: a block of a strided matrix of any storage type becomes panels in the order that the micro-kernel reads.
//
// A panel is `width` elements of one axis (rows of the thin operand, columns of the wide one) for each of `depth` steps of the other, step
// after step, `panel_width` apart. What lies between width and panel_width is zero.
#if defined(ATTILE_CPU_PACK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_PACK_INL_H
#undef ATTILE_CPU_PACK_INL_H
#else
#define ATTILE_CPU_PACK_INL_H
#endif

#include "gemm/microkernel-inl.h"
#include "simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

// Contiguous along the width: copy.
template <class T, class S>
HWY_INLINE void pack_along(const S *source, int64_t depth_stride, int64_t width, int64_t depth, T *panel, int64_t panel_width) {
    const Tag<T> d;
    if (width == panel_width && width % kLanes<T> == 0) {
        for (int64_t k = 0; k < depth; ++k, source += depth_stride, panel += panel_width) {
            for (int64_t w = 0; w < width; w += kLanes<T>) hn::StoreU(load_as(d, source + w), d, panel + w);
        }
        return;
    }
    for (int64_t k = 0; k < depth; ++k, source += depth_stride, panel += panel_width) {
        for (int64_t w = 0; w < panel_width; w += kLanes<T>) {
            store_first(d, load_as(d, source + w, width - w), panel + w, panel_width - w);
        }
    }
}

// Contiguous along the depth: transpose squares of 16 bytes on a side.
template <class T, class S>
HWY_INLINE void pack_across(const S *source, int64_t width_stride, int64_t width, int64_t depth, T *panel, int64_t panel_width) {
    constexpr int kSide = static_cast<int>(16 / sizeof(T));
    const hn::FixedTag<T, static_cast<size_t>(kSide)> d;
    for (int64_t w = 0; w < panel_width; w += kSide) {
        const S *rows = source + w * width_stride;
        T *out = panel + w;
        int64_t k = 0;
        if (w + kSide <= width) {
            for (; k + kSide <= depth; k += kSide, out += kSide * panel_width) {
                if constexpr (kSide == 4) {
                    const hn::Repartition<double, decltype(d)> d2;
                    const auto r0 = load_as(d, rows + k);
                    const auto r1 = load_as(d, rows + width_stride + k);
                    const auto r2 = load_as(d, rows + 2 * width_stride + k);
                    const auto r3 = load_as(d, rows + 3 * width_stride + k);
                    const auto a01 = hn::BitCast(d2, hn::InterleaveLower(d, r0, r1));
                    const auto a23 = hn::BitCast(d2, hn::InterleaveLower(d, r2, r3));
                    const auto b01 = hn::BitCast(d2, hn::InterleaveUpper(d, r0, r1));
                    const auto b23 = hn::BitCast(d2, hn::InterleaveUpper(d, r2, r3));
                    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d2, a01, a23)), d, out);
                    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d2, a01, a23)), d, out + panel_width);
                    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d2, b01, b23)), d, out + 2 * panel_width);
                    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d2, b01, b23)), d, out + 3 * panel_width);
                } else {
                    const auto r0 = load_as(d, rows + k);
                    const auto r1 = load_as(d, rows + width_stride + k);
                    hn::StoreU(hn::InterleaveLower(d, r0, r1), d, out);
                    hn::StoreU(hn::InterleaveUpper(d, r0, r1), d, out + panel_width);
                }
            }
        }
        // What is left of the depth, or rows that make no square: one row after the other.
        for (int i = 0; i < kSide && w + i < panel_width; ++i) {
            T *element = out + i;
            if (w + i < width) {
                const S *row = rows + i * width_stride;
                for (int64_t p = k; p < depth; ++p, element += panel_width) *element = to_compute<T>(row[p]);
            } else {
                for (int64_t p = k; p < depth; ++p, element += panel_width) *element = T{0};
            }
        }
    }
}

template <class T, class S>
HWY_INLINE void pack_anyhow(const S *source, int64_t width_stride, int64_t depth_stride, int64_t width, int64_t depth, T *panel,
                            int64_t panel_width) {
    for (int64_t k = 0; k < depth; ++k, panel += panel_width) {
        for (int64_t w = 0; w < panel_width; ++w) {
            panel[w] = w < width ? to_compute<T>(source[w * width_stride + k * depth_stride]) : T{0};
        }
    }
}

// One panel.
template <class T, class S>
HWY_NOINLINE void pack_panel(const S *source, int64_t width_stride, int64_t depth_stride, int64_t width, int64_t depth, T *panel,
                             int64_t panel_width) {
    if (width_stride == 1) {
        pack_along(source, depth_stride, width, depth, panel, panel_width);
    } else if (depth_stride == 1) {
        pack_across(source, width_stride, width, depth, panel, panel_width);
    } else {
        pack_anyhow(source, width_stride, depth_stride, width, depth, panel, panel_width);
    }
}

// Rows of a row-major block are prefetched this many ahead: each begins on a page of its own, where hardware prefetching ends.
inline constexpr int64_t kRowsAhead = 4;

// Panel after panel of `panel_width` each; the last may be narrower inside, its room is the same.
template <class T>
void pack_panels(const void *source, int32_t dtype, int64_t offset, int64_t width_stride, int64_t depth_stride, int64_t width,
                 int64_t depth, T *panels, int64_t panel_width) {
    with_storage<T>(dtype, [&](auto s) {
        using S = decltype(s);
        const S *first = static_cast<const S *>(source) + offset;
        int64_t done = 0;
        if (width_stride == 1 && panel_width % kLanes<T> == 0) {
            // Whole rows of the source at a time, over all panels but a last narrow one: memory is read in long runs.
            const Tag<T> d;
            done = width - width % panel_width;
            for (int64_t k = 0; k < depth; ++k) {
                T *out = panels + k * panel_width;
                if (k + kRowsAhead < depth) {
                    const S *soon = first + (k + kRowsAhead) * depth_stride;
                    for (int64_t w = 0; w < done; w += static_cast<int64_t>(64 / sizeof(S))) __builtin_prefetch(soon + w);
                }
                for (int64_t w = 0; w < done; w += panel_width, out += panel_width * depth) {
                    for (int64_t v = 0; v < panel_width; v += kLanes<T>) {
                        hn::StoreU(load_as(d, first + k * depth_stride + w + v), d, out + v);
                    }
                }
            }
        }
        panels += done * depth;
        for (int64_t w = done; w < width; w += panel_width, panels += panel_width * depth) {
            const int64_t count = width - w < panel_width ? width - w : panel_width;
            pack_panel<T, S>(first + w * width_stride, width_stride, depth_stride, count, depth, panels, panel_width);
        }
    });
}

// A square of 16 bytes on a side, transposed: four rows of f32 or two of f64.
template <class T, class D, class V = hn::Vec<D>>
HWY_INLINE void transpose_square(D d, V (&r)[16 / sizeof(T)]) {
    if constexpr (sizeof(T) == 4) {
        const hn::Repartition<double, D> d2;
        const auto a01 = hn::BitCast(d2, hn::InterleaveLower(d, r[0], r[1]));
        const auto a23 = hn::BitCast(d2, hn::InterleaveLower(d, r[2], r[3]));
        const auto b01 = hn::BitCast(d2, hn::InterleaveUpper(d, r[0], r[1]));
        const auto b23 = hn::BitCast(d2, hn::InterleaveUpper(d, r[2], r[3]));
        r[0] = hn::BitCast(d, hn::InterleaveLower(d2, a01, a23));
        r[1] = hn::BitCast(d, hn::InterleaveUpper(d2, a01, a23));
        r[2] = hn::BitCast(d, hn::InterleaveLower(d2, b01, b23));
        r[3] = hn::BitCast(d, hn::InterleaveUpper(d2, b01, b23));
    } else {
        const V low = hn::InterleaveLower(d, r[0], r[1]);
        r[1] = hn::InterleaveUpper(d, r[0], r[1]);
        r[0] = low;
    }
}

#if HWY_TARGET == HWY_AVX3
// A square of 16 numbers of 32 bits on a side, transposed.
HWY_INLINE void transpose_16(Vec<uint32_t> (&r)[16]) {
    const Tag<uint32_t> d;
    const hn::Repartition<uint64_t, decltype(d)> d2;
    Vec<uint32_t> t[16];
    ATTILE_CPU_UNROLL
    for (int i = 0; i < 16; i += 2) {
        t[i] = hn::InterleaveLower(d, r[i], r[i + 1]);
        t[i + 1] = hn::InterleaveUpper(d, r[i], r[i + 1]);
    }
    // Now block b of r[4 g + q] is column 4 b + q of rows 4 g and the three after it.
    ATTILE_CPU_UNROLL
    for (int i = 0; i < 16; i += 4) {
        ATTILE_CPU_UNROLL
        for (int q = 0; q < 2; ++q) {
            const auto low = hn::BitCast(d2, t[i + q]), high = hn::BitCast(d2, t[i + 2 + q]);
            r[i + 2 * q] = hn::BitCast(d, hn::InterleaveLower(d2, low, high));
            r[i + 2 * q + 1] = hn::BitCast(d, hn::InterleaveUpper(d2, low, high));
        }
    }
    ATTILE_CPU_UNROLL
    for (int q = 0; q < 4; ++q) {
        const auto even0 = _mm512_shuffle_i32x4(r[q].raw, r[4 + q].raw, 0x88),
                   even1 = _mm512_shuffle_i32x4(r[8 + q].raw, r[12 + q].raw, 0x88);
        const auto odd0 = _mm512_shuffle_i32x4(r[q].raw, r[4 + q].raw, 0xdd),
                   odd1 = _mm512_shuffle_i32x4(r[8 + q].raw, r[12 + q].raw, 0xdd);
        t[q] = Vec<uint32_t>{_mm512_shuffle_i32x4(even0, even1, 0x88)};
        t[4 + q] = Vec<uint32_t>{_mm512_shuffle_i32x4(odd0, odd1, 0x88)};
        t[8 + q] = Vec<uint32_t>{_mm512_shuffle_i32x4(even0, even1, 0xdd)};
        t[12 + q] = Vec<uint32_t>{_mm512_shuffle_i32x4(odd0, odd1, 0xdd)};
    }
    ATTILE_CPU_UNROLL
    for (int i = 0; i < 16; ++i) r[i] = t[i];
}
#endif

// Squares side by side: a vector of as many blocks of 16 bytes as a target has, block b of row i from source(kSide * b + i).
template <class T, class D, class Source>
HWY_INLINE hn::Vec<D> blocks_of([[maybe_unused]] D d, int i, const Source &source) {
    constexpr int kSide = static_cast<int>(16 / sizeof(T));
    if constexpr (hn::MaxLanes(D()) == kSide) {
        return source(i);
    } else {
        const hn::Half<D> dh;
        constexpr int kHigh = static_cast<int>(hn::MaxLanes(D()) / 2);
        return hn::Combine(d, blocks_of<T>(dh, kHigh + i, source), blocks_of<T>(dh, i, source));
    }
}
// The inverse: sink(kSide * b + i, block b).
template <class T, class D, class Sink>
HWY_INLINE void each_block([[maybe_unused]] D d, int i, hn::Vec<D> v, const Sink &sink) {
    constexpr int kSide = static_cast<int>(16 / sizeof(T));
    if constexpr (hn::MaxLanes(D()) == kSide) {
        sink(i, v);
    } else {
        const hn::Half<D> dh;
        each_block<T>(dh, i, hn::LowerHalf(dh, v), sink);
        each_block<T>(dh, static_cast<int>(hn::MaxLanes(D()) / 2) + i, hn::UpperHalf(dh, v), sink);
    }
}

// Prefetches rows beyond the current ones: hardware prefetching does not find the next row.
template <int kWrite, class S>
HWY_INLINE void ask_rows(const S *rows, const int64_t *offset, int64_t from, int64_t to, int64_t count, int64_t depth) {
    for (int64_t i = from; i < to && i < count; ++i) {
        for (int64_t k = 0; k < depth; k += static_cast<int64_t>(64 / sizeof(S))) __builtin_prefetch(rows + offset[i] + k, kWrite);
    }
}

// Calls sink(vector of rows[offset[w] + k * step], k, w) for k < depth and each vector of lanes up to width, 0 from count on: rows anywhere
// become lanes. Width: whole vectors; offsets from count on are those of some row.
template <class T, class S, class Sink>
HWY_INLINE void each_gathered(const S *rows, const int64_t *offset, int64_t step, int64_t count, int64_t depth, int64_t width,
                              const Sink &sink) {
    constexpr int kSide = static_cast<int>(16 / sizeof(T));
    const hn::FixedTag<T, static_cast<size_t>(kSide)> block;
    const Tag<T> d;
    for (int64_t w = 0; w < width; w += kLanes<T>) {
        int64_t k = 0;
        if (step == 1 && w < count) {
            ask_rows<0>(rows, offset, w, w + kLanes<T>, count, depth);
#if HWY_TARGET == HWY_AVX3
            if constexpr (sizeof(T) == 4) {
                const Tag<uint32_t> du;
                const auto rows_there = hn::FirstN(du, static_cast<size_t>(least(count - w, kLanes<T>)));
                // Two numbers of bfloat16 are turned as one of 32 bits.
                for (; std::is_same_v<S, Brain> && k + 32 <= depth; k += 32) {
                    Vec<uint32_t> square[16];
                    ATTILE_CPU_UNROLL
                    for (int i = 0; i < 16; ++i) {
                        square[i] = hn::LoadU(du, reinterpret_cast<const uint32_t *>(rows + offset[w + i] + k));
                    }
                    transpose_16(square);
                    ATTILE_CPU_UNROLL
                    for (int i = 0; i < 16; ++i) {
                        const Vec<uint32_t> pair = hn::IfThenElseZero(rows_there, square[i]);
                        sink(hn::BitCast(d, hn::ShiftLeft<16>(pair)), k + 2 * i, w);
                        sink(hn::BitCast(d, hn::And(pair, hn::Set(du, 0xffff0000u))), k + 2 * i + 1, w);
                    }
                }
                for (; k + 16 <= depth; k += 16) {
                    Vec<uint32_t> square[16];
                    ATTILE_CPU_UNROLL
                    for (int i = 0; i < 16; ++i) square[i] = hn::BitCast(du, load_as(d, rows + offset[w + i] + k));
                    transpose_16(square);
                    ATTILE_CPU_UNROLL
                    for (int i = 0; i < 16; ++i) sink(hn::BitCast(d, hn::IfThenElseZero(rows_there, square[i])), k + i, w);
                }
            }
#endif
            const auto there = hn::FirstN(d, static_cast<size_t>(least(count - w, kLanes<T>)));
            for (; k + kSide <= depth; k += kSide) {
                Vec<T> square[kSide];
                for (int i = 0; i < kSide; ++i) {
                    square[i] = blocks_of<T>(d, i, [&](int row) HWY_ATTR { return load_as(block, rows + offset[w + row] + k); });
                }
                transpose_square<T>(d, square);
                for (int i = 0; i < kSide; ++i) sink(hn::IfThenElseZero(there, square[i]), k + i, w);
            }
        }
        for (; k < depth; ++k) {
            HWY_ALIGN T lanes[kLanes<T>];
            for (int64_t i = 0; i < kLanes<T>; ++i) lanes[i] = w + i < count ? to_compute<T>(rows[offset[w + i] + k * step]) : T{0};
            sink(hn::Load(d, lanes), k, w);
        }
    }
}

// columns[k * width + w] = rows[offset[w] + k * step] for w < count, 0 up to width.
template <class T, class S>
HWY_NOINLINE void gather_rows(const S *rows, const int64_t *offset, int64_t step, int64_t count, int64_t depth, T *columns, int64_t width) {
    const Tag<T> d;
    each_gathered<T, S>(rows, offset, step, count, depth, width,
                        [&](Vec<T> x, int64_t k, int64_t w) HWY_ATTR { hn::StoreU(x, d, columns + k * width + w); });
}

// The inverse: rows[offset[w] + k * step] = columns[k * width + w].
template <class T, class S>
HWY_NOINLINE void scatter_rows(const T *columns, int64_t width, int64_t depth, S *rows, const int64_t *offset, int64_t step,
                               int64_t count) {
    constexpr int kSide = static_cast<int>(16 / sizeof(T));
    const hn::FixedTag<T, static_cast<size_t>(kSide)> block;
    const Tag<T> d;
    for (int64_t w = 0; w < count; w += kLanes<T>) {
        int64_t k = 0;
        if (step == 1) {
            const int64_t there = count - w;
            ask_rows<1>(rows, offset, w, w + kLanes<T>, count, depth);
#if HWY_TARGET == HWY_AVX3
            if constexpr (sizeof(T) == 4) {
                const Tag<T> whole;
                const Tag<uint32_t> du;
                for (; k + 16 <= depth; k += 16) {
                    Vec<uint32_t> square[16];
                    for (int64_t i = 0; i < 16; ++i) square[i] = hn::BitCast(du, hn::LoadU(whole, columns + (k + i) * width + w));
                    transpose_16(square);
                    for (int64_t i = 0; i < 16 && i < there; ++i) store_as(whole, hn::BitCast(whole, square[i]), rows + offset[w + i] + k);
                }
            }
#endif
            for (; k + kSide <= depth; k += kSide) {
                Vec<T> square[kSide];
                for (int i = 0; i < kSide; ++i) square[i] = hn::LoadU(d, columns + (k + i) * width + w);
                transpose_square<T>(d, square);
                for (int i = 0; i < kSide; ++i) {
                    each_block<T>(d, i, square[i], [&](int row, auto v) HWY_ATTR {
                        if (row < there) store_as(block, v, rows + offset[w + row] + k);
                    });
                }
            }
        }
        for (; k < depth; ++k) {
            for (int64_t i = w; i < w + kLanes<T> && i < count; ++i) rows[offset[i] + k * step] = to_storage<S>(columns[k * width + i]);
        }
    }
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
