// SPDX-License-Identifier: Apache-2.0
// Products of int8 with exact sums in int32.
//
// Pairs: two numbers, widened to 16 bits, are multiplied and added in one instruction on every target. Quads: VPDPBUSD multiplies four, of
// which those of one operand have no sign. So the thin operand is lifted by 128, and each sum begins with -128 times the sum of its column
// of the wide one. Sums wrap on their way, and are right at the end if int32 holds them.
#if defined(ATTILE_CPU_INTEGER_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_INTEGER_INL_H
#undef ATTILE_CPU_INTEGER_INL_H
#else
#define ATTILE_CPU_INTEGER_INL_H
#endif

#include <array>
#include <cstring>
#include <utility>

#include "gemm/finish-inl.h"
#include "gemm/integer.h"
#include "gemm/pack-inl.h"
#include "simd-inl.h"

// The processor may have VPDPBUSD; detect.cpp finds out: each that has AVX512-BF16 has it.
#undef ATTILE_CPU_INTEGER_QUADS
#if HWY_TARGET == HWY_AVX3
#define ATTILE_CPU_INTEGER_QUADS 1
#else
#define ATTILE_CPU_INTEGER_QUADS 0
#endif

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

inline constexpr int kIntegerRows = 6;
#if HWY_TARGET == HWY_AVX3
inline constexpr int kIntegerVectors = 4;
#else
inline constexpr int kIntegerVectors = 2;
#endif
inline constexpr int kIntegerColumns = kIntegerVectors * kLanes<int32_t>;
static_assert(kIntegerRows * kIntegerColumns <= kMostTile);

#if ATTILE_CPU_INTEGER_QUADS
struct QuadSum {
    static HWY_INLINE Vec<int32_t> add(Vec<int32_t> thin, Vec<int32_t> wide, Vec<int32_t> sum, Vec<int32_t> & /*other*/) {
        asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(thin.raw), "v"(wide.raw));
        return sum;
    }
    static HWY_INLINE Vec<int32_t> value(Vec<int32_t> sum, Vec<int32_t> /*other*/) { return sum; }
};
#endif

template <class Sum, int kRows>
HWY_NOINLINE void integer_tile_rows(int64_t steps, const int32_t *thin, const int32_t *wide, const int32_t *start, int32_t *sums) {
    const Tag<int32_t> d;
    Vec<int32_t> sum[kRows][kIntegerVectors], other[kRows][kIntegerVectors];
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kRows; ++i) {
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kIntegerVectors; ++v) {
            sum[i][v] = start == nullptr ? hn::Zero(d) : hn::LoadU(d, start + v * kLanes<int32_t>);
            other[i][v] = hn::Zero(d);
        }
    }
    for (; steps > 0; --steps, thin += kIntegerRows, wide += kIntegerColumns) {
        Vec<int32_t> w[kIntegerVectors];
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kIntegerVectors; ++v) w[v] = hn::LoadU(d, wide + v * kLanes<int32_t>);
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kRows; ++i) {
            const Vec<int32_t> t = hn::Set(d, thin[i]);
            ATTILE_CPU_UNROLL
            for (int v = 0; v < kIntegerVectors; ++v) sum[i][v] = Sum::add(t, w[v], sum[i][v], other[i][v]);
        }
    }
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kRows; ++i) {
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kIntegerVectors; ++v)
            hn::StoreU(Sum::value(sum[i][v], other[i][v]), d, sums + i * kIntegerColumns + v * kLanes<int32_t>);
    }
}

template <class Sum>
void integer_tile(int64_t rows, int64_t steps, const int32_t *thin, const int32_t *wide, const int32_t *start, int32_t *sums) {
    using Fn = void (*)(int64_t, const int32_t *, const int32_t *, const int32_t *, int32_t *);
    static constexpr auto kTable = []<int... kRow>(std::integer_sequence<int, kRow...>) {
        return std::array<Fn, sizeof...(kRow)>{&integer_tile_rows<Sum, kRow + 1>...};
    }
    (std::make_integer_sequence<int, kIntegerRows>{});
    kTable[static_cast<size_t>(rows - 1)](steps, thin, wide, start, sums);
}

// Four places of 16 bytes: the numbers of a row or column that lie side by side.
inline constexpr int kSquare = 4;
template <int kNumbers>
HWY_INLINE hn::Vec<hn::FixedTag<float, kSquare>> load_places(const int8_t *from) {
    const hn::FixedTag<float, kSquare> d;
    if constexpr (kNumbers == 4) {
        const hn::FixedTag<int8_t, 16> d8;
        return hn::BitCast(d, hn::LoadU(d8, from));
    } else {
        const hn::FixedTag<int16_t, 8> d16;
        const hn::FixedTag<int8_t, 8> d8;
        return hn::BitCast(d, hn::PromoteTo(d16, hn::LoadU(d8, from)));
    }
}

// One place: numbers `depth_stride` apart, zeros from `count` on.
template <int kNumbers>
HWY_INLINE int32_t one_place(const int8_t *from, int64_t depth_stride, int64_t count) {
    using Number = std::conditional_t<kNumbers == 4, int8_t, int16_t>;
    Number numbers[kNumbers] = {};
    for (int64_t k = 0; k < kNumbers && k < count; ++k) numbers[k] = from[k * depth_stride];
    int32_t place = 0;
    std::memcpy(&place, numbers, sizeof place);
    return place;
}

// Columns side by side: the bytes of kNumbers rows are interleaved.
template <int kNumbers>
HWY_INLINE void interleave(const int8_t *rows, int64_t step, int32_t *places) {
    const hn::FixedTag<int32_t, 4> d;
    if constexpr (kNumbers == 4) {  // 16 columns
        const hn::FixedTag<int8_t, 16> d8;
        const hn::FixedTag<int16_t, 8> d16;
        const auto r0 = hn::LoadU(d8, rows), r1 = hn::LoadU(d8, rows + step), r2 = hn::LoadU(d8, rows + 2 * step),
                   r3 = hn::LoadU(d8, rows + 3 * step);
        const auto low01 = hn::BitCast(d16, hn::InterleaveLower(d8, r0, r1)), high01 = hn::BitCast(d16, hn::InterleaveUpper(d8, r0, r1));
        const auto low23 = hn::BitCast(d16, hn::InterleaveLower(d8, r2, r3)), high23 = hn::BitCast(d16, hn::InterleaveUpper(d8, r2, r3));
        hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d16, low01, low23)), d, places);
        hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d16, low01, low23)), d, places + 4);
        hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d16, high01, high23)), d, places + 8);
        hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d16, high01, high23)), d, places + 12);
    } else {  // 8 columns
        const hn::FixedTag<int8_t, 8> d8;
        const hn::FixedTag<int16_t, 8> d16;
        const auto r0 = hn::PromoteTo(d16, hn::LoadU(d8, rows)), r1 = hn::PromoteTo(d16, hn::LoadU(d8, rows + step));
        hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d16, r0, r1)), d, places);
        hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d16, r0, r1)), d, places + 4);
    }
}

template <int kNumbers>
void integer_pack(const int8_t *source, int64_t width_stride, int64_t depth_stride, int64_t width, int64_t depth, int32_t *panel,
                  int64_t panel_width) {
    constexpr int64_t kTogether = kNumbers * 4;  // columns that interleave() takes
    const int64_t steps = ceil_div(depth, kNumbers);
    int64_t done = 0;  // of the width
    if (width_stride == 1) {
        done = width / kTogether * kTogether;
        const int64_t whole = depth / kNumbers;
        for (int64_t step = 0; step < steps; ++step) {
            const int8_t *rows = source + step * kNumbers * depth_stride;
            int32_t *places = panel + step * panel_width;
            for (int64_t w = 0; w < done; w += kTogether) {
                if (step < whole) {
                    interleave<kNumbers>(rows + w, depth_stride, places + w);
                } else {
                    for (int64_t i = w; i < w + kTogether; ++i)
                        places[i] = one_place<kNumbers>(rows + i, depth_stride, depth - step * kNumbers);
                }
            }
        }
    } else if (depth_stride == 1) {
        const hn::FixedTag<float, kSquare> d;
        const hn::FixedTag<int32_t, kSquare> di;
        done = width / kSquare * kSquare;
        // The last rows of a whole panel come first: what their squares have too much is written anew.
        const int64_t rest = width - done;
        int64_t rest_steps = 0;
        if (width == panel_width && rest > 0 && done > 0) {
            const int8_t *rows = source + done * width_stride;
            for (; rest_steps + kSquare < steps && (rest_steps + kSquare) * kNumbers <= depth; rest_steps += kSquare) {
                hn::Vec<decltype(d)> square[kSquare];
                for (int i = 0; i < kSquare; ++i)
                    square[i] = i < rest ? load_places<kNumbers>(rows + i * width_stride + rest_steps * kNumbers) : hn::Zero(d);
                transpose_square<float>(d, square);
                for (int i = 0; i < kSquare; ++i) hn::StoreU(hn::BitCast(di, square[i]), di, panel + (rest_steps + i) * panel_width + done);
            }
        }
        for (int64_t step = rest_steps; step < steps; ++step) {
            for (int64_t w = done; w < width; ++w)
                panel[step * panel_width + w] =
                    one_place<kNumbers>(source + step * kNumbers + w * width_stride, 1, depth - step * kNumbers);
        }
        for (int64_t w = 0; w < done; w += kSquare) {
            const int8_t *rows = source + w * width_stride;
            int64_t step = 0;
            for (; (step + kSquare) * kNumbers <= depth; step += kSquare) {
                hn::Vec<decltype(d)> square[kSquare];
                for (int i = 0; i < kSquare; ++i) square[i] = load_places<kNumbers>(rows + i * width_stride + step * kNumbers);
                transpose_square<float>(d, square);
                for (int i = 0; i < kSquare; ++i) hn::StoreU(hn::BitCast(di, square[i]), di, panel + (step + i) * panel_width + w);
            }
            for (; step < steps; ++step) {
                for (int i = 0; i < kSquare; ++i)
                    panel[step * panel_width + w + i] =
                        one_place<kNumbers>(rows + i * width_stride + step * kNumbers, 1, depth - step * kNumbers);
            }
        }
        done = width;
    }
    for (int64_t step = 0; step < steps; ++step) {
        const int8_t *rows = source + step * kNumbers * depth_stride;
        for (int64_t w = done; w < panel_width; ++w)
            panel[step * panel_width + w] =
                w < width ? one_place<kNumbers>(rows + w * width_stride, depth_stride, depth - step * kNumbers) : 0;
    }
}

void keep_thin(int32_t * /*panel*/, int64_t /*places*/) {}
void begin_with_zero(int64_t /*steps*/, const int32_t * /*wide*/, int32_t *start) {
    for (int j = 0; j < kIntegerColumns; ++j) start[j] = 0;
}

#if ATTILE_CPU_INTEGER_QUADS
// Numbers plus 128: their top bits turned.
void lift_thin(int32_t *panel, int64_t places) {
    for (int64_t i = 0; i < places; ++i) panel[i] ^= static_cast<int32_t>(0x80808080u);
}
void begin_with_columns(int64_t steps, const int32_t *wide, int32_t *start) {
    const Tag<int32_t> d;
    Vec<int32_t> sum[kIntegerVectors];
    for (int v = 0; v < kIntegerVectors; ++v) sum[v] = hn::Zero(d);
    Vec<int32_t> other = hn::Zero(d);
    const Vec<int32_t> ones = hn::Set(d, 0x01010101);
    for (; steps > 0; --steps, wide += kIntegerColumns) {
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kIntegerVectors; ++v) sum[v] = QuadSum::add(ones, hn::LoadU(d, wide + v * kLanes<int32_t>), sum[v], other);
    }
    for (int v = 0; v < kIntegerVectors; ++v) hn::StoreU(hn::Neg(hn::ShiftLeft<7>(sum[v])), d, start + v * kLanes<int32_t>);
}
#endif

void integer_scale(int64_t rows, const int32_t *sums, const float *row_factors, const float *column_factors, bool rows_first, bool first,
                   float *out) {
    const Tag<int32_t> di;
    const Tag<float> d;
    for (int64_t i = 0; i < rows; ++i, sums += kIntegerColumns, out += kIntegerColumns) {
        const Vec<float> factor = hn::Set(d, row_factors == nullptr ? 1.0f : row_factors[i]);
        for (int v = 0; v < kIntegerColumns; v += kLanes<float>) {
            Vec<float> x = hn::ConvertTo(d, hn::LoadU(di, sums + v));
            if (row_factors != nullptr && rows_first) x = hn::Mul(x, factor);
            if (column_factors != nullptr) x = hn::Mul(x, hn::LoadU(d, column_factors + v));
            if (row_factors != nullptr && !rows_first) x = hn::Mul(x, factor);
            hn::StoreU(first ? x : hn::Add(x, hn::LoadU(d, out + v)), d, out + v);
        }
    }
}

void integer_finish(const GemmView &view, float *out, int64_t i0, int64_t j0, int64_t rows, int64_t columns) {
    finish_rectangle<float>(view, out, kIntegerColumns, i0, j0, rows, columns, true, true, nullptr, 0);
}

#if ATTILE_CPU_INTEGER_QUADS
constexpr IntegerWay kIntegerQuads = {kIntegerRows,           kIntegerColumns, 4,
                                      &integer_pack<4>,       &lift_thin,      &begin_with_columns,
                                      &integer_tile<QuadSum>, &integer_scale,  &integer_finish};
#endif

template <class T>
const IntegerKernels<T> &kernels() {
#if ATTILE_CPU_INTEGER_QUADS
    constexpr const IntegerWay *kQuads = &kIntegerQuads;
#else
    constexpr const IntegerWay *kQuads = nullptr;
#endif
    static constexpr IntegerKernels<T> kTable = {{kIntegerRows, kIntegerColumns, 2, &integer_pack<2>, &keep_thin, &begin_with_zero,
                                                  &integer_tile<PairSum>, &integer_scale, &integer_finish},
                                                 kQuads};
    return kTable;
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
