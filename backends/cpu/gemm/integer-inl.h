// SPDX-License-Identifier: Apache-2.0
// Products of int8 with exact sums in int32.
//
// Pairs: two numbers, widened to 16 bits, are multiplied and added in one instruction on every target. Quads: VPDPBUSD multiplies four, of
// which those of one operand have no sign. So the thin operand is lifted by 128, and each sum begins with -128 times the sum of its column
// of the wide one. Sums wrap on their way, and are right at the end if int32 holds them. NEON's SDOT has signs on both sides, and SMMLA
// multiplies two rows by two columns, eight numbers of each.
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
// Likewise SDOT and SMMLA.
#undef ATTILE_CPU_INTEGER_NEON
#undef ATTILE_CPU_INTEGER_ARCH
#if HWY_TARGET == HWY_NEON
#define ATTILE_CPU_INTEGER_NEON 1
#else
#define ATTILE_CPU_INTEGER_NEON 0
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

#if ATTILE_CPU_INTEGER_NEON
// The assembler alone is told of these, so that the compiler uses them nowhere else.
#define ATTILE_CPU_INTEGER_ARCH ".arch armv8.2-a+crypto+dotprod+i8mm\n\t"
struct QuadSum {
    static HWY_INLINE Vec<int32_t> add(Vec<int32_t> thin, Vec<int32_t> wide, Vec<int32_t> sum, Vec<int32_t> & /*other*/) {
        asm(ATTILE_CPU_INTEGER_ARCH "sdot %0.4s, %1.16b, %2.16b" : "+w"(sum.raw) : "w"(thin.raw), "w"(wide.raw));
        return sum;
    }
    static HWY_INLINE Vec<int32_t> value(Vec<int32_t> sum, Vec<int32_t> /*other*/) { return sum; }
};
// Of rows 0 and 1 and columns 0 and 1 of the operands: 00, 01, 10, 11.
HWY_INLINE Vec<int32_t> add_matrix(Vec<int32_t> rows, Vec<int32_t> columns, Vec<int32_t> sum) {
    asm(ATTILE_CPU_INTEGER_ARCH "smmla %0.4s, %1.16b, %2.16b" : "+w"(sum.raw) : "w"(rows.raw), "w"(columns.raw));
    return sum;
}

inline constexpr int kMatrixRows = 8;
// Thin panels have two steps of each row side by side; a last step without another stays as it is.
void pair_thin(int32_t *panel, int64_t places) {
    for (; places >= 2 * kMatrixRows; places -= 2 * kMatrixRows, panel += 2 * kMatrixRows) {
        int32_t steps[2 * kMatrixRows];
        std::memcpy(steps, panel, sizeof steps);
        for (int i = 0; i < kMatrixRows; ++i) {
            panel[2 * i] = steps[i];
            panel[2 * i + 1] = steps[kMatrixRows + i];
        }
    }
}

template <int kPairs>
HWY_NOINLINE void matrix_tile_rows(int64_t steps, const int32_t *thin, const int32_t *wide, int32_t *sums) {
    const Tag<int32_t> d;
    Vec<int32_t> sum[kPairs][2 * kIntegerVectors];
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kPairs; ++i) {
        ATTILE_CPU_UNROLL
        for (int v = 0; v < 2 * kIntegerVectors; ++v) sum[i][v] = hn::Zero(d);
    }
    const auto add = [&](const Vec<int32_t> *rows, const Vec<int32_t> *first, const Vec<int32_t> *second) HWY_ATTR {
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kIntegerVectors; ++v) {
            const Vec<int32_t> lower = hn::InterleaveLower(d, first[v], second[v]), upper = hn::InterleaveUpper(d, first[v], second[v]);
            ATTILE_CPU_UNROLL
            for (int i = 0; i < kPairs; ++i) {
                sum[i][2 * v] = add_matrix(rows[i], lower, sum[i][2 * v]);
                sum[i][2 * v + 1] = add_matrix(rows[i], upper, sum[i][2 * v + 1]);
            }
        }
    };
    Vec<int32_t> rows[kPairs], first[kIntegerVectors], second[kIntegerVectors];
    for (; steps > 1; steps -= 2, thin += 2 * kMatrixRows, wide += 2 * kIntegerColumns) {
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kPairs; ++i) rows[i] = hn::LoadU(d, thin + 4 * i);
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kIntegerVectors; ++v) {
            first[v] = hn::LoadU(d, wide + v * kLanes<int32_t>);
            second[v] = hn::LoadU(d, wide + kIntegerColumns + v * kLanes<int32_t>);
        }
        add(rows, first, second);
    }
    if (steps > 0) {
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kPairs; ++i) {
            const int32_t pair[4] = {thin[2 * i], 0, thin[2 * i + 1], 0};
            rows[i] = hn::LoadU(d, pair);
        }
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kIntegerVectors; ++v) {
            first[v] = hn::LoadU(d, wide + v * kLanes<int32_t>);
            second[v] = hn::Zero(d);
        }
        add(rows, first, second);
    }
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kPairs; ++i, sums += 2 * kIntegerColumns) {
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kIntegerVectors; ++v) {
            hn::StoreU(hn::ConcatLowerLower(d, sum[i][2 * v + 1], sum[i][2 * v]), d, sums + v * kLanes<int32_t>);
            hn::StoreU(hn::ConcatUpperUpper(d, sum[i][2 * v + 1], sum[i][2 * v]), d, sums + kIntegerColumns + v * kLanes<int32_t>);
        }
    }
}

// All sums begin with 0.
void matrix_tile(int64_t rows, int64_t steps, const int32_t *thin, const int32_t *wide, const int32_t * /*start*/, int32_t *sums) {
    using Fn = void (*)(int64_t, const int32_t *, const int32_t *, int32_t *);
    static constexpr Fn kTable[kMatrixRows / 2] = {matrix_tile_rows<1>, matrix_tile_rows<2>, matrix_tile_rows<3>, matrix_tile_rows<4>};
    kTable[(rows - 1) / 2](steps, thin, wide, sums);
}
#endif

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
constexpr IntegerWay kIntegerQuads = {"avx512vnni",     kIntegerRows,   kIntegerColumns,     4,
                                      &integer_pack<4>, &lift_thin,     &begin_with_columns, &integer_tile<QuadSum>,
                                      &integer_scale,   &integer_finish};
#elif ATTILE_CPU_INTEGER_NEON
constexpr IntegerWay kIntegerQuads = {"neon_sdot",      kIntegerRows,   kIntegerColumns,  4,
                                      &integer_pack<4>, &keep_thin,     &begin_with_zero, &integer_tile<QuadSum>,
                                      &integer_scale,   &integer_finish};
constexpr IntegerWay kIntegerMatrices = {"neon_smmla", kMatrixRows,    kIntegerColumns, 4, &integer_pack<4>, &pair_thin, &begin_with_zero,
                                         &matrix_tile, &integer_scale, &integer_finish};
#endif

template <class T>
const IntegerKernels<T> &kernels() {
    constexpr const IntegerWay *kQuads =
#if ATTILE_CPU_INTEGER_QUADS || ATTILE_CPU_INTEGER_NEON
        &kIntegerQuads;
#else
        nullptr;
#endif
    constexpr const IntegerWay *kMatrices =
#if ATTILE_CPU_INTEGER_NEON
        &kIntegerMatrices;
#else
        nullptr;
#endif
    static constexpr IntegerKernels<T> kTable = {{nullptr, kIntegerRows, kIntegerColumns, 2, &integer_pack<2>, &keep_thin, &begin_with_zero,
                                                  &integer_tile<PairSum>, &integer_scale, &integer_finish},
                                                 kQuads,
                                                 kMatrices};
    return kTable;
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
