// SPDX-License-Identifier: Apache-2.0
// The micro-kernel that everything multiplies with: a tile of kRows rows by kVectors vectors in registers, one rank-1 update per step.
//
// The "thin" operand is read one element at a time and broadcast, the "wide" one in whole vectors. Per step and target:
//   AVX-512 12 x 32 f32 (24 of 32 registers), AVX2 6 x 16 (12 of 16), SSE4 6 x 8 (12 of 16), NEON 12 x 8 (24 of 32); f64 half as wide.
// Large products on AVX-512 take 9 x 48 (27 of 32), which has fewer loads for a multiply-add. Bound: multiply-adds, then loads from the
// first-level cache. Every element of the tile is one chain of multiply-adds in the order of k, whatever the tile's size: the bits of a
// result do not depend on where in a tile it falls. Record: docs/kernels/cpu.md.
#if defined(ATTILE_CPU_MICROKERNEL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_MICROKERNEL_INL_H
#undef ATTILE_CPU_MICROKERNEL_INL_H
#else
#define ATTILE_CPU_MICROKERNEL_INL_H
#endif

#include <array>
#include <utility>

#include "simd-inl.h"

#undef ATTILE_CPU_UNROLL
#if defined(__clang__) && defined(ATTILE_CPU_SANITIZED)
// Each access has checks of its own here, and for an unrolled tile of them Clang takes minutes to find registers.
#define ATTILE_CPU_UNROLL _Pragma("clang loop unroll(disable)")
#elif defined(__clang__)
#define ATTILE_CPU_UNROLL _Pragma("clang loop unroll(full)")
#else
#define ATTILE_CPU_UNROLL _Pragma("GCC unroll 16")
#endif

// For lambdas that hold a tile in registers.
#undef ATTILE_CPU_INLINE
#define ATTILE_CPU_INLINE HWY_ATTR __attribute__((always_inline))

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
inline constexpr int kTileRows = 12;
#else
inline constexpr int kTileRows = 6;
#endif
inline constexpr int kTileVectors = 2;
template <class T>
inline constexpr int kTileColumns = kTileVectors *kLanes<T>;

// The tile of packed matrix products.
#if HWY_TARGET == HWY_AVX3
inline constexpr int kGemmRows = 9;
inline constexpr int kGemmVectors = 3;
#else
inline constexpr int kGemmRows = kTileRows;
inline constexpr int kGemmVectors = kTileVectors;
#endif

// A row of a tile takes its broadcast factor either through a register, which is one instruction more, or as a memory operand of each
// multiply-add, which is kVectors - 1 loads more. Where two threads share a core, instructions are scarce, otherwise loads may be: some
// rows do the one, some the other. Only AVX-512 has such an operand, and compilers turn two such loads into one.
#if HWY_TARGET == HWY_AVX3
HWY_INLINE Vec<float> multiply_add_from(const float *factor, Vec<float> x, Vec<float> sum) {
    asm("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(sum.raw) : "v"(x.raw), "m"(*factor));
    return sum;
}
HWY_INLINE Vec<double> multiply_add_from(const double *factor, Vec<double> x, Vec<double> sum) {
    asm("vfmadd231pd %2%{1to8%}, %1, %0" : "+v"(sum.raw) : "v"(x.raw), "m"(*factor));
    return sum;
}
// A multiply-add that compilers keep in the form that overwrites the sum; otherwise some of two unrolled steps copy sums.
HWY_INLINE Vec<float> multiply_add_in_place(Vec<float> t, Vec<float> x, Vec<float> sum) {
    asm("vfmadd231ps %2, %1, %0" : "+v"(sum.raw) : "v"(x.raw), "v"(t.raw));
    return sum;
}
HWY_INLINE Vec<double> multiply_add_in_place(Vec<double> t, Vec<double> x, Vec<double> sum) {
    asm("vfmadd231pd %2, %1, %0" : "+v"(sum.raw) : "v"(x.raw), "v"(t.raw));
    return sum;
}
#else
template <class V>
HWY_INLINE V multiply_add_in_place(V t, V x, V sum) {
    return hn::MulAdd(t, x, sum);
}
#endif
// What a step of the depth multiplies: one number of each operand, or two of bfloat16, whose bits lie in the place of one float
// (gemm/brain-inl.h): by VDPBF16PS, or by multiply-adds, which keep numbers below the smallest normal one and else give the same bits.
struct OneNumber {};
struct BrainPair {};
struct KeptBrainPair {};
#if HWY_TARGET == HWY_AVX3
// The high halves' product is added first.
HWY_INLINE Vec<float> add_pairs(Vec<float> t, Vec<float> x, Vec<float> sum) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(x.raw), "v"(t.raw));
    return sum;
}
HWY_INLINE Vec<float> add_pairs_from(const float *factor, Vec<float> x, Vec<float> sum) {
    asm("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(sum.raw) : "v"(x.raw), "m"(*factor));
    return sum;
}
HWY_INLINE Vec<float> add_kept_pairs(Vec<float> t, Vec<float> x, Vec<float> sum) {
    const Tag<float> d;
    const Tag<uint32_t> du;
    const auto high = hn::Set(du, 0xffff0000u);
    const auto upper = [&](Vec<float> v) HWY_ATTR { return hn::BitCast(d, hn::And(hn::BitCast(du, v), high)); };
    const auto lower = [&](Vec<float> v) HWY_ATTR { return hn::BitCast(d, hn::ShiftLeft<16>(hn::BitCast(du, v))); };
    return hn::MulAdd(lower(t), lower(x), hn::MulAdd(upper(t), upper(x), sum));
}
#endif
constexpr bool factor_from_memory([[maybe_unused]] int row, [[maybe_unused]] int rows, [[maybe_unused]] int vectors) {
#if HWY_TARGET == HWY_AVX3
    return row * rows / vectors / rows != (row + 1) * rows / vectors / rows;
#else
    return false;
#endif
}

template <class T, int kRow, int kRows, int kVectors, class Step = OneNumber>
HWY_INLINE void add_row(const T *factor, const Vec<T> (&wide)[kVectors], Vec<T> (&acc)[kVectors]) {
#if HWY_TARGET == HWY_AVX3
    if constexpr (!std::is_same_v<Step, OneNumber>) {
        constexpr bool kKept = std::is_same_v<Step, KeptBrainPair>;
        if constexpr (!kKept && factor_from_memory(kRow, kRows, kVectors)) {
            ATTILE_CPU_UNROLL
            for (int v = 0; v < kVectors; ++v) acc[v] = add_pairs_from(factor, wide[v], acc[v]);
        } else {
            const Vec<T> t = hn::Set(Tag<T>(), *factor);
            ATTILE_CPU_UNROLL
            for (int v = 0; v < kVectors; ++v) acc[v] = kKept ? add_kept_pairs(t, wide[v], acc[v]) : add_pairs(t, wide[v], acc[v]);
        }
        return;
    }
#endif
    if constexpr (factor_from_memory(kRow, kRows, kVectors)) {
#if HWY_TARGET == HWY_AVX3
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kVectors; ++v) acc[v] = multiply_add_from(factor, wide[v], acc[v]);
#endif
    } else {
        const Vec<T> t = hn::Set(Tag<T>(), *factor);
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kVectors; ++v) acc[v] = hn::MulAdd(t, wide[v], acc[v]);
    }
}

// acc[i][v] += sum over k of thin(i, k) wide(k, v). thin(i, k) lies at thin[k * thin_step + i]. kAhead: steps to prefetch thin ahead, where
// its steps are too far apart for hardware prefetching.
template <class T, int kRows, int kVectors, int kAhead = 0, int kWideAhead = 0, class Step = OneNumber>
HWY_INLINE void accumulate(int64_t depth, const T *HWY_RESTRICT thin, int64_t thin_step, const T *HWY_RESTRICT wide, int64_t wide_step,
                           Vec<T> (&acc)[kRows][kVectors]) {
    const Tag<T> d;
    for (; depth > 0; --depth) {
        if constexpr (kAhead > 0) __builtin_prefetch(thin + kAhead * thin_step);
        if constexpr (kWideAhead > 0) {
            ATTILE_CPU_UNROLL
            for (int v = 0; v < kVectors; ++v) __builtin_prefetch(wide + kWideAhead * kVectors * kLanes<T> + v * kLanes<T>);
        }
        Vec<T> w[kVectors];
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kVectors; ++v) w[v] = hn::LoadU(d, wide + v * kLanes<T>);
        [&]<int... kRow>(std::integer_sequence<int, kRow...>) ATTILE_CPU_INLINE {
            (add_row<T, kRow, kRows, kVectors, Step>(thin + kRow, w, acc[kRow]), ...);
        }
        (std::make_integer_sequence<int, kRows>{});
        thin += thin_step;
        wide += wide_step;
    }
}

// The same with thin(i, k) at thin[i * row_step + k]: rows as they lie in a row-major matrix. Factors go through registers: an address of
// two registers is an instruction of its own beside the multiply-add, and a pointer for each row leaves compilers too few registers.
template <class T, int kRows, int kVectors, int kWideAhead = 0>
HWY_INLINE void accumulate_rows(int64_t depth, const T *HWY_RESTRICT thin, int64_t row_step, const T *HWY_RESTRICT wide, int64_t wide_step,
                                Vec<T> (&acc)[kRows][kVectors]) {
    const Tag<T> d;
    // Three rows by address arithmetic from one pointer keep the pointers in registers.
    constexpr int kGroups = (kRows + 2) / 3;
    const T *group[kGroups];
    ATTILE_CPU_UNROLL
    for (int g = 0; g < kGroups; ++g) group[g] = thin + 3 * g * row_step;
    const int64_t step2 = 2 * row_step;
    for (int64_t k = 0; k < depth; ++k) {
        if constexpr (kWideAhead > 0) {
            ATTILE_CPU_UNROLL
            for (int v = 0; v < kVectors; ++v) __builtin_prefetch(wide + kWideAhead * kVectors * kLanes<T> + v * kLanes<T>);
        }
        Vec<T> w[kVectors];
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kVectors; ++v) w[v] = hn::LoadU(d, wide + v * kLanes<T>);
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kRows; ++i) {
            const T *p = group[i / 3];
            const Vec<T> t = hn::Set(d, i % 3 == 0 ? p[0] : i % 3 == 1 ? p[row_step] : p[step2]);
            ATTILE_CPU_UNROLL
            for (int v = 0; v < kVectors; ++v) acc[i][v] = hn::MulAdd(t, w[v], acc[i][v]);
        }
        ATTILE_CPU_UNROLL
        for (int g = 0; g < kGroups; ++g) ++group[g];
        wide += wide_step;
    }
}

// Where a tile goes: out = alpha acc + beta in, both row-major. in == nullptr: not read. `soon`: what is prefetched.
template <class T>
struct TileTarget {
    T *out;
    int64_t out_step;
    const T *in;
    int64_t in_step;
    T alpha, beta;
    const char *soon;
    int64_t soon_step;   // from what one row of the tile prefetches to what the next one does
    int64_t soon_lines;  // of 64 bytes that each row of the tile prefetches
};
// Steps that the wide operand of a packed product is prefetched ahead: it comes from L2.
inline constexpr int kWideAhead = 8;

template <class T>
using TileFn = void (*)(int64_t depth, const T *thin, int64_t thin_step, const T *wide, int64_t wide_step, const TileTarget<T> &target);

// The wide operand is packed; the thin one too, or kByRows: by rows where it lies.
template <class T, int kRows, int kVectors, bool kByRows, class Step = OneNumber>
HWY_NOINLINE void gemm_tile(int64_t depth, const T *thin, int64_t thin_step, const T *wide, int64_t wide_step,
                            const TileTarget<T> &target) {
    const Tag<T> d;
    Vec<T> acc[kRows][kVectors];
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kRows; ++i) {
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kVectors; ++v) acc[i][v] = hn::Zero(d);
    }
    T *out = target.out;
    const auto multiply_steps = [&](int64_t steps) ATTILE_CPU_INLINE {
        if constexpr (kByRows) {
            accumulate_rows<T, kRows, kVectors, kWideAhead>(steps, thin, thin_step, wide, wide_step, acc);
        } else {
            accumulate<T, kRows, kVectors, 0, kWideAhead, Step>(steps, thin, thin_step, wide, wide_step, acc);
        }
    };
    // Lines of the result are prefetched one row at a time, spread over the depth: all at once they would occupy the few fill buffers
    // through which the wide operand comes.
    const int64_t piece = depth >= 8 * kRows ? depth / kRows : 0;
    const T *row = out;
    const char *soon = target.soon;
    for (int i = 0; i < kRows; ++i) {
        __builtin_prefetch(row, 1);
        if constexpr (kVectors * sizeof(Vec<T>) > 64) __builtin_prefetch(row + (kVectors * kLanes<T> - 1), 1);
        if constexpr (kVectors * sizeof(Vec<T>) > 128) __builtin_prefetch(row + kLanes<T>, 1);
        row += target.out_step;
        if (piece == 0) continue;
        if (soon != nullptr) {
            for (int64_t line = 0; line < target.soon_lines; ++line) __builtin_prefetch(soon + line * 64, 0, 2);
            soon += target.soon_step;
        }
        multiply_steps(piece);
        thin += piece * (kByRows ? 1 : thin_step);
        wide += piece * wide_step;
    }
    multiply_steps(depth - piece * kRows);
    const Vec<T> alpha = hn::Set(d, target.alpha);
    if (target.in == nullptr) {
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kRows; ++i) {
            ATTILE_CPU_UNROLL
            for (int v = 0; v < kVectors; ++v) hn::StoreU(hn::Mul(alpha, acc[i][v]), d, out + v * kLanes<T>);
            out += target.out_step;
        }
        return;
    }
    const Vec<T> beta = hn::Set(d, target.beta);
    const T *in = target.in;
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kRows; ++i) {
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kVectors; ++v) {
            const Vec<T> old = hn::LoadU(d, in + v * kLanes<T>);
            hn::StoreU(hn::MulAdd(alpha, acc[i][v], hn::Mul(beta, old)), d, out + v * kLanes<T>);
        }
        out += target.out_step;
        in += target.in_step;
    }
}

// The end of a tile whose columns do not fill its vectors: its sums lie in a buffer.
template <class T>
HWY_NOINLINE void store_narrow(const T *sums, int64_t sums_step, const TileTarget<T> &target, int64_t rows, int64_t columns) {
    const Tag<T> d;
    const Vec<T> alpha = hn::Set(d, target.alpha), beta = hn::Set(d, target.beta);
    for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; j += kLanes<T>) {
            Vec<T> sum = hn::Load(d, sums + i * sums_step + j);
            if (target.in != nullptr) {
                sum = hn::MulAdd(alpha, sum, hn::Mul(beta, load_first(d, target.in + i * target.in_step + j, columns - j)));
            } else {
                sum = hn::Mul(alpha, sum);
            }
            store_first(d, sum, target.out + i * target.out_step + j, columns - j);
        }
    }
}

// The kernel for a tile of 1 .. kRows rows.
template <class T, int kRows, int kVectors, bool kByRows, class Step = OneNumber>
TileFn<T> tile_fn(int64_t rows) {
    static constexpr auto kTable = []<int... kRow>(std::integer_sequence<int, kRow...>) {
        return std::array<TileFn<T>, sizeof...(kRow)>{&gemm_tile<T, kRow + 1, kVectors, kByRows, Step>...};
    }
    (std::make_integer_sequence<int, kRows>{});
    return kTable[static_cast<size_t>(rows - 1)];
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
