// SPDX-License-Identifier: Apache-2.0
// Small products: both operands are read where they lie, and nothing is decided twice, since a product of 32 cubed takes less than half a
// microsecond.
//
// Tiles of 12 rows by two vectors, on AVX-512 also 9 by three and 6 by four: fewer loads for a multiply-add. Rows are shared out evenly,
// since a tile of few rows cannot keep the multipliers busy. Columns that do not fill a vector are masked on AVX-512; elsewhere a copy of
// them stands in (SmallProduct::b_tail). Record: docs/kernels/cpu.md.
#if defined(ATTILE_CPU_SMALL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_SMALL_INL_H
#undef ATTILE_CPU_SMALL_INL_H
#else
#define ATTILE_CPU_SMALL_INL_H
#endif

#include "gemm/gemm.h"
#include "gemm/microkernel-inl.h"
#include "simd-inl.h"

// Targets on which a masked load or store costs what a whole one does.
#undef ATTILE_CPU_SMALL_MASKS
#if HWY_TARGET == HWY_AVX3
#define ATTILE_CPU_SMALL_MASKS 1
#else
#define ATTILE_CPU_SMALL_MASKS 0
#endif

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

inline constexpr int kSmallVectors = ATTILE_CPU_SMALL_MASKS ? 4 : 2;
constexpr int small_rows(int vectors) { return vectors <= 2 ? kTileRows : vectors == 3 ? 9 : 6; }
// Tiles for `m` rows, by constant divisors.
constexpr uint32_t small_tile_count(uint32_t m, int vectors) {
    if (vectors <= 2) return (m + small_rows(2) - 1) / small_rows(2);
    return vectors == 3 ? (m + small_rows(3) - 1) / small_rows(3) : (m + small_rows(4) - 1) / small_rows(4);
}
// Of `left` vectors of columns, those that the next tiles take: four at once where they leave half of L1 free.
constexpr int small_vectors(int64_t left, int64_t depth) {
    if (kSmallVectors == 2 || left <= 2) return left == 1 ? 1 : 2;
    if (depth <= 96) return left == 4 || left > 6 ? 4 : 3;
    return left % 3 == 0 ? 3 : 2;
}

template <class T>
struct SmallTile {
    int64_t depth;
    const T *thin;  // (i, k) at thin[i * thin_step + k] by rows, thin[k * thin_step + i] by columns
    int64_t thin_step;
    const T *wide;
    int64_t wide_step;
    int64_t last;  // columns in the last vector, where they are masked
    TileTarget<T> to;
};
template <class T>
using SmallFn = void (*)(const SmallTile<T> &tile);

// The `kVectors` vectors of a row. Of the last one only what the mask selects, unless it is whole: masks cost 2 to 3 % on an Emerald
// Rapids.
template <class T, int kVectors, bool kWhole>
struct SmallRow {
#if ATTILE_CPU_SMALL_MASKS
    static constexpr int kMasked = kWhole ? kVectors : kVectors - 1;
    hn::Mask<Tag<T>> mask;
    HWY_INLINE explicit SmallRow(int64_t last) : mask(hn::FirstN(Tag<T>(), static_cast<size_t>(last))) { asm("" : "+Yk"(mask.raw)); }
    HWY_INLINE Vec<T> load(const T *p, int v) const {
        return v == kMasked ? hn::MaskedLoad(mask, Tag<T>(), p + v * kLanes<T>) : hn::LoadU(Tag<T>(), p + v * kLanes<T>);
    }
    HWY_INLINE void store(Vec<T> x, T *p, int v) const {
        if (v == kMasked) {
            hn::BlendedStore(x, mask, Tag<T>(), p + v * kLanes<T>);
        } else {
            hn::StoreU(x, Tag<T>(), p + v * kLanes<T>);
        }
    }
#else
    HWY_INLINE explicit SmallRow(int64_t /*last*/) {}
    HWY_INLINE Vec<T> load(const T *p, int v) const { return hn::LoadU(Tag<T>(), p + v * kLanes<T>); }
    HWY_INLINE void store(Vec<T> x, T *p, int v) const { hn::StoreU(x, Tag<T>(), p + v * kLanes<T>); }
#endif
};

template <class T, int kRows, int kVectors, bool kByRows, bool kWhole>
HWY_NOINLINE void small_tile(const SmallTile<T> &tile) {
    const Tag<T> d;
    const SmallRow<T, kVectors, kWhole> row(tile.last);
    const T *thin = tile.thin, *wide = tile.wide;
    const int64_t thin_step = tile.thin_step, wide_step = tile.wide_step;
    // Three rows by address arithmetic from one pointer keep the pointers in registers.
    constexpr int kGroups = (kRows + 2) / 3;
    const T *group[kGroups];
    ATTILE_CPU_UNROLL
    for (int g = 0; g < kGroups; ++g) group[g] = thin + 3 * g * thin_step;
    Vec<T> acc[kRows][kVectors];
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kRows; ++i) {
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kVectors; ++v) acc[i][v] = hn::Zero(d);
    }
    const auto step = [&](int64_t k) ATTILE_CPU_INLINE {
        Vec<T> w[kVectors];
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kVectors; ++v) w[v] = row.load(wide, v);
        if constexpr (kByRows) {
            ATTILE_CPU_UNROLL
            for (int i = 0; i < kRows; ++i) {
                const T *p = group[i / 3] + k;
                const Vec<T> t = hn::Set(d, i % 3 == 0 ? p[0] : i % 3 == 1 ? p[thin_step] : p[2 * thin_step]);
                ATTILE_CPU_UNROLL
                for (int v = 0; v < kVectors; ++v) acc[i][v] = multiply_add_in_place(t, w[v], acc[i][v]);
            }
        } else {
            [&]<int... kRow>(std::integer_sequence<int, kRow...>) ATTILE_CPU_INLINE {
                (add_row<T, kRow, kRows, kVectors>(thin + kRow, w, acc[kRow]), ...);
            }
            (std::make_integer_sequence<int, kRows>{});
            thin += thin_step;
        }
        wide += wide_step;
    };
    const auto pass = [&](int64_t steps) ATTILE_CPU_INLINE {
        ATTILE_CPU_UNROLL
        for (int g = 0; g < kGroups; ++g) group[g] += steps;
    };
    int64_t k = tile.depth;
    for (; k >= 2; k -= 2) {
        step(0);
        asm("" ::: "memory");  // a compiler that sees both steps loads for the second before the first, and runs out of registers
        step(1);
        pass(2);
    }
    if (k > 0) step(0);
    T *out = tile.to.out;
    const T *in = tile.to.in;
    const int64_t out_step = tile.to.out_step, in_step = tile.to.in_step;
    const Vec<T> alpha = hn::Set(d, tile.to.alpha);
    if (in != nullptr) {
        const Vec<T> beta = hn::Set(d, tile.to.beta);
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kRows; ++i, out += out_step, in += in_step) {
            ATTILE_CPU_UNROLL
            for (int v = 0; v < kVectors; ++v) row.store(hn::MulAdd(alpha, acc[i][v], hn::Mul(beta, row.load(in, v))), out, v);
        }
        return;
    }
    if (tile.to.alpha != 1) {
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kRows; ++i) {
            ATTILE_CPU_UNROLL
            for (int v = 0; v < kVectors; ++v) acc[i][v] = hn::Mul(alpha, acc[i][v]);
        }
    }
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kRows; ++i, out += out_step) {
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kVectors; ++v) row.store(acc[i][v], out, v);
    }
}

// The kernels for 1 .. small_rows(kVectors) rows.
template <class T, int kVectors, bool kByRows, bool kWhole>
const SmallFn<T> *small_table() {
    static constexpr auto kTable = []<int... kRow>(std::integer_sequence<int, kRow...>) {
        return std::array<SmallFn<T>, sizeof...(kRow)>{&small_tile<T, kRow + 1, kVectors, kByRows, kWhole>...};
    }
    (std::make_integer_sequence<int, small_rows(kVectors)>{});
    return kTable.data();
}
template <class T, bool kByRows, bool kWhole>
HWY_INLINE const SmallFn<T> *small_table(int vectors) {
#if ATTILE_CPU_SMALL_MASKS
    if (vectors == 4) return small_table<T, 4, kByRows, kWhole>();
    if (vectors == 3) return small_table<T, 3, kByRows, kWhole>();
#endif
    return vectors == 2 ? small_table<T, 2, kByRows, kWhole>() : small_table<T, 1, kByRows, kWhole>();
}
template <class T>
HWY_INLINE const SmallFn<T> *small_table(int vectors, bool by_rows, [[maybe_unused]] bool whole) {
#if ATTILE_CPU_SMALL_MASKS
    if (!whole) return by_rows ? small_table<T, true, false>(vectors) : small_table<T, false, false>(vectors);
#endif
    return by_rows ? small_table<T, true, true>(vectors) : small_table<T, false, true>(vectors);
}

// finish(i, rows, j, columns, sums, sums_step): the end of a tile that is more than alpha and beta.
template <class T, class Finish>
HWY_INLINE void small_tiles(const SmallProduct<T> &p, const Finish &finish) {
    constexpr int64_t kColumns = kSmallVectors * kLanes<T>;
    HWY_ALIGN T scratch[static_cast<size_t>(kTileRows * kColumns)];
    const bool by_rows = p.a_row != 1;
    const int64_t thin_step = by_rows ? p.a_row : p.a_column;
    SmallTile<T> tile;
    tile.depth = p.k;
    tile.thin_step = thin_step;
    for (int64_t j = 0; j < p.n;) {
        const int64_t left = (p.n - j + kLanes<T> - 1) / kLanes<T>;
        const int vectors = small_vectors(left, p.k);
        const int64_t columns = least(p.n - j, vectors * kLanes<T>);
        tile.last = columns - (vectors - 1) * kLanes<T>;
        const bool partly = tile.last != kLanes<T> && !ATTILE_CPU_SMALL_MASKS;
        tile.wide = p.b + j;
        tile.wide_step = p.b_row;
        if (partly) {
            tile.wide = p.b_tail;
            tile.wide_step = kColumns;
        }
        const bool apart = partly || p.view != nullptr;
        if (apart) {
            tile.to = {scratch, kColumns, nullptr, 0, T{1}, T{0}, nullptr, 0, 0};
        } else {
            tile.to = {p.d + j, p.d_row, p.c == nullptr ? nullptr : p.c + j, p.c_row, p.alpha, p.beta, nullptr, 0, 0};
        }
        const SmallFn<T> *fn = small_table<T>(vectors, by_rows, tile.last == kLanes<T>);
        const uint32_t m = static_cast<uint32_t>(p.m);
        const uint32_t tiles = small_tile_count(m, vectors);
        const uint32_t least_rows = tiles == 1 ? m : m / tiles;
        uint32_t more = m - least_rows * tiles;  // tiles with a row more
        for (int64_t i = 0; i < p.m;) {
            const int64_t rows = least_rows + (more > 0 ? 1 : 0);
            if (more > 0) --more;
            tile.thin = p.a + i * p.a_row;
            fn[rows - 1](tile);
            if (!apart) {
                tile.to.out += rows * p.d_row;
                if (p.c != nullptr) tile.to.in += rows * p.c_row;
            } else if (p.view != nullptr) {
                finish(i, rows, j, columns, scratch, kColumns);
            } else {
                const T *in = p.c == nullptr ? nullptr : p.c + i * p.c_row + j;
                store_narrow<T>(scratch, kColumns, {p.d + i * p.d_row + j, p.d_row, in, p.c_row, p.alpha, p.beta, nullptr, 0, 0}, rows,
                                columns);
            }
            i += rows;
        }
        j += columns;
    }
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
