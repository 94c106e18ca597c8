// SPDX-License-Identifier: Apache-2.0
// The two products of attention on a panel of query rows, with the micro-kernel: scores = scale K q and sums = V^T p, and the softmax
// between.
//
// Layouts, W lanes wide: queries [head_dim][W], scores [keys][W], sums [head_dim_v][W]. K and V are read as rows, in place or from a block.
#if defined(ATTILE_CPU_ATTENTION_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_ATTENTION_TILE_INL_H
#undef ATTILE_CPU_ATTENTION_TILE_INL_H
#else
#define ATTILE_CPU_ATTENTION_TILE_INL_H
#endif

#include "gemm/microkernel-inl.h"
#include "math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

// Lanes of a panel.
template <class T>
inline constexpr int kPanel = kTileColumns<T>;

// Keys are packed into panels of a tile's rows where several panels of queries share them and the target gains by it: AVX-512, whose
// multiply-adds take factors from memory as long as one register is their address.
inline constexpr bool kPackKeys = HWY_TARGET == HWY_AVX3;
inline constexpr int64_t kPanelsToPack = 8;

template <class T, int kRows, int kVectors, bool kPacked, class Step>
HWY_NOINLINE void score_tile(int64_t head_dim, const T *keys, int64_t key_step, const T *queries, T scale, T *scores) {
    const Tag<T> d;
    Vec<T> acc[kRows][kVectors];
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kRows; ++i) {
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kVectors; ++v) acc[i][v] = hn::Zero(d);
    }
    if constexpr (kPacked) {
        accumulate<T, kRows, kVectors, 0, 0, Step>(head_dim, keys, kTileRows, queries, kPanel<T>, acc);
    } else {
        accumulate_rows<T, kRows, kVectors>(head_dim, keys, key_step, queries, kPanel<T>, acc);
    }
    const Vec<T> factor = hn::Set(d, scale);
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kRows; ++i) {
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kVectors; ++v) hn::Store(hn::Mul(acc[i][v], factor), d, scores + i * kPanel<T> + v * kLanes<T>);
    }
}

// sums = sums x correction + values^T weights for kRows columns of values; later runs of a block are added.
template <class T, int kRows, int kVectors, bool kFirst, class Step>
HWY_INLINE void value_run(int64_t keys, const T *values, int64_t value_step, const T *weights, const T *correction, T *sums) {
    const Tag<T> d;
    Vec<T> acc[kRows][kVectors];
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kRows; ++i) {
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kVectors; ++v) acc[i][v] = hn::Zero(d);
    }
    accumulate<T, kRows, kVectors, 4, 0, Step>(keys, values, value_step, weights, kPanel<T>, acc);
    ATTILE_CPU_UNROLL
    for (int v = 0; v < kVectors; ++v) {
        const Vec<T> factor = kFirst ? hn::Load(d, correction + v * kLanes<T>) : hn::Set(d, T{1});
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kRows; ++i) {
            T *sum = sums + i * kPanel<T> + v * kLanes<T>;
            hn::Store(hn::MulAdd(hn::Load(d, sum), factor, acc[i][v]), d, sum);
        }
    }
}

// keys: steps, of a key each or a pair of them.
template <class T, int kRows, int kVectors, bool kRuns, class Step>
HWY_NOINLINE void value_tile(int64_t keys, const T *values, int64_t value_step, const T *weights, const T *correction, T *sums) {
    constexpr int64_t kRun = std::is_same_v<Step, OneNumber> ? kPanelRun : kPanelRun / 2;
    const int64_t first = kRuns ? least(kRun, keys) : keys;
    value_run<T, kRows, kVectors, true, Step>(first, values, value_step, weights, correction, sums);
    for (int64_t j = first; kRuns && j < keys; j += kRun) {
        value_run<T, kRows, kVectors, false, Step>(least(kRun, keys - j), values + j * value_step, value_step, weights + j * kPanel<T>,
                                                   nullptr, sums);
    }
}

template <class T>
using ScoreFn = void (*)(int64_t, const T *, int64_t, const T *, T, T *);
template <class T>
using ValueFn = void (*)(int64_t, const T *, int64_t, const T *, const T *, T *);

template <class T, int kVectors, bool kPacked = false, class Step = OneNumber>
ScoreFn<T> score_fn(int64_t rows) {
    static constexpr auto kTable = []<int... kRow>(std::integer_sequence<int, kRow...>) {
        return std::array<ScoreFn<T>, sizeof...(kRow)>{&score_tile<T, kRow + 1, kVectors, kPacked, Step>...};
    }
    (std::make_integer_sequence<int, kTileRows>{});
    return kTable[static_cast<size_t>(rows - 1)];
}

template <class T, int kVectors, bool kRuns, class Step>
ValueFn<T> value_fn(int64_t rows) {
    static constexpr auto kTable = []<int... kRow>(std::integer_sequence<int, kRow...>) {
        return std::array<ValueFn<T>, sizeof...(kRow)>{&value_tile<T, kRow + 1, kVectors, kRuns, Step>...};
    }
    (std::make_integer_sequence<int, kTileRows>{});
    return kTable[static_cast<size_t>(rows - 1)];
}

// `extent` in tiles of nearly equal height: tile t of tile_count(extent).
inline int64_t tile_count(int64_t extent) { return (extent + kTileRows - 1) / kTileRows; }
inline int64_t tile_begin(int64_t extent, int64_t tiles, int64_t t) { return extent * t / tiles; }

// Rows that will be needed later, prefetched a few with each tile: a core waits less for L3 and for memory if it always has some lines in
// flight. All at once would occupy the fill buffers through which the tiles' own lines come.
struct Coming {
    const char *row = nullptr;
    int64_t step = 0, bytes = 0, rows = 0;
    int64_t a_tile = 0;  // rows prefetched with each tile

    HWY_INLINE void ask() {
        const int64_t count = rows < a_tile ? rows : a_tile;
        for (int64_t i = 0; i < count; ++i, row += step) {
            for (int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(row + b, 0, 2);
        }
        rows -= count;
    }
};

template <class T, int kVectors>
void compute_scores(int64_t head_dim, const T *keys, int64_t key_step, int64_t count, const T *queries, T scale, T *scores,
                    Coming *coming = nullptr) {
    const int64_t tiles = tile_count(count);
    for (int64_t t = 0; t < tiles; ++t) {
        const int64_t j = tile_begin(count, tiles, t);
        if (coming != nullptr) coming->ask();
        score_fn<T, kVectors>(tile_begin(count, tiles, t + 1) - j)(head_dim, keys + j * key_step, key_step, queries, scale,
                                                                   scores + j * kPanel<T>);
    }
}

// The same from panels of packed keys, `first` being the place of the first key in them; head_dim in steps.
template <class T, int kVectors, class Step = OneNumber>
void compute_packed_scores(int64_t head_dim, const T *panels, int64_t panel_step, int64_t first, int64_t count, const T *queries, T scale,
                           T *scores, Coming *coming) {
    for (int64_t j = first; j < first + count;) {
        const int64_t inside = j % kTileRows;
        const int64_t rows = least(kTileRows - inside, first + count - j);
        coming->ask();
        score_fn<T, kVectors, true, Step>(rows)(head_dim, panels + j / kTileRows * panel_step + inside, 0, queries, scale,
                                                scores + (j - first) * kPanel<T>);
        j += rows;
    }
}

template <class T, int kVectors, bool kRuns = false, class Step = OneNumber>
void add_values(int64_t head_dim_v, const T *values, int64_t value_step, int64_t count, const T *weights, const T *correction, T *sums,
                Coming *coming = nullptr) {
    const int64_t tiles = tile_count(head_dim_v);
    for (int64_t t = 0; t < tiles; ++t) {
        if (coming != nullptr) coming->ask();
        const int64_t c = tile_begin(head_dim_v, tiles, t);
        value_fn<T, kVectors, kRuns, Step>(tile_begin(head_dim_v, tiles, t + 1) - c)(count, values + c, value_step, weights, correction,
                                                                                     sums + c * kPanel<T>);
    }
}

// The running softmax of a panel: per lane the maximum of its scores, and the sum of its weights relative to it.
template <class T>
struct LaneState {
    T *maximum;  // -inf until a key was seen
    T *sum;
    T *rounded_off;  // by the sum so far
};

#if HWY_TARGET == HWY_AVX3
// Two keys' weights rounded to bfloat16, the first in low halves. They are 0 or normal numbers: what the instruction flushes is not there.
HWY_INLINE Vec<float> narrow_pair(Vec<float> first, Vec<float> second) {
    const Tag<uint16_t> d16;
    HWY_ALIGN static constexpr uint16_t kZip[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                    8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    Vec<float> both;
    asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(both.raw) : "v"(second.raw), "v"(first.raw));
    // Highway looks up no lanes of 16 bits.
    const Vec<uint16_t> zipped{_mm512_permutexvar_epi16(hn::Load(d16, kZip).raw, hn::BitCast(d16, both).raw)};
    return hn::BitCast(Tag<float>(), zipped);
}
#endif

// Distances of ALiBi make weights of any size. A product of one near the smallest normal number and a value is subnormal, which takes
// processors a hundred times as long (docs/kernels/cpu.md); beside weights that sum to 1 at least, such weights count for nothing.
template <class T>
HWY_INLINE hn::Mask<Tag<T>> is_not_far(Vec<T> x) {
    const Tag<T> d;
    constexpr double kLog2 = 0.693147180559945309417;
    const Vec<T> least = hn::Set(d, static_cast<T>(-(sizeof(T) == 4 ? 100 : 960) * kLog2));
#if HWY_TARGET == HWY_AVX3
    // One instruction; Highway has no comparison that is true of NaN.
    if constexpr (sizeof(T) == 4) {
        return hn::Mask<Tag<T>>{_mm512_cmp_ps_mask(x.raw, least.raw, _CMP_NLT_UQ)};
    } else {
        return hn::Mask<Tag<T>>{_mm512_cmp_pd_mask(x.raw, least.raw, _CMP_NLT_UQ)};
    }
#else
    return hn::Not(hn::Lt(x, least));
#endif
}

// kPairs: weights become pairs of bfloat16 at `to`, which lies before what is read later. kScaled: scores are multiplied by `scale` first.
// kFar: weights below 2^-100 (double: 2^-960) are 0.
template <class T, int kVectors, int kKeys, bool kPairs, bool kScaled, bool kFar>
HWY_INLINE void soften_keys(T *scores, [[maybe_unused]] T *to, [[maybe_unused]] Vec<T> scale, const Vec<T> (&base)[kVectors],
                            Vec<T> (&sum)[kVectors]) {
    const Tag<T> d;
    Vec<T> x[kKeys * kVectors];
    [[maybe_unused]] hn::Mask<Tag<T>> counts[kKeys * kVectors];
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kKeys * kVectors; ++i) {
        const Vec<T> score = hn::Load(d, scores + i / kVectors * kPanel<T> + i % kVectors * kLanes<T>);
        x[i] = kScaled ? hn::MulSub(score, scale, base[i % kVectors]) : hn::Sub(score, base[i % kVectors]);
        if constexpr (kFar) counts[i] = is_not_far<T>(x[i]);
    }
    exp_clamped_each<kKeys * kVectors>(d, x);
    if constexpr (kFar) {
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kKeys * kVectors; ++i) x[i] = hn::IfThenElseZero(counts[i], x[i]);
    }
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kKeys * kVectors; ++i) {
        if constexpr (!kPairs) hn::Store(x[i], d, scores + i / kVectors * kPanel<T> + i % kVectors * kLanes<T>);
        sum[i % kVectors] = hn::Add(sum[i % kVectors], x[i]);
    }
#if HWY_TARGET == HWY_AVX3
    if constexpr (kPairs) {
        static_assert(kKeys <= 2);
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kVectors; ++v) {
            hn::Store(narrow_pair(x[v], kKeys == 2 ? x[(kKeys - 1) * kVectors + v] : hn::Zero(d)), d, to + v * kLanes<T>);
        }
    }
#endif
}

// A panel's sums over all spans of keys before: the total of each element, what it has rounded off, and per lane the maximum that they
// count from.
template <class T>
struct PanelTotal {
    T *total, *rounded_off, *maximum;
};

// The sums of a span, which count from `maximum`, join the total, and the next begin from zero.
template <class T>
HWY_NOINLINE void end_span(int64_t head_dim_v, const T *maximum, const PanelTotal<T> &to, T *sums) {
    const Tag<T> d;
    const Vec<T> hidden = hn::Set(d, -std::numeric_limits<T>::infinity());
    for (int64_t w = 0; w < kPanel<T>; w += kLanes<T>) {
        const Vec<T> now = hn::Load(d, maximum + w), base = hn::IfThenElse(hn::Eq(now, hidden), hn::Zero(d), now);
        const Vec<T> keep = exp_clamped(d, hn::Sub(hn::Load(d, to.maximum + w), base));
        hn::Store(now, d, to.maximum + w);
        for (int64_t i = w; i < head_dim_v * kPanel<T>; i += kPanel<T>) {
            LongSum<Tag<T>> sum{hn::Load(d, to.total + i), hn::Load(d, to.rounded_off + i)};
            sum.scale(keep);
            sum.add(hn::Load(d, sums + i));
            hn::Store(sum.total, d, to.total + i);
            hn::Store(sum.rounded_off, d, to.rounded_off + i);
            hn::Store(hn::Zero(d), d, sums + i);
        }
    }
}

template <class T>
void add_rounded_off(int64_t size, const PanelTotal<T> &of, T *sums) {
    const Tag<T> d;
    for (int64_t i = 0; i < size; i += kLanes<T>) {
        hn::Store(LongSum<Tag<T>>{hn::Load(d, of.total + i), hn::Load(d, of.rounded_off + i)}.value(), d, sums + i);
    }
}

// Scores become weights e^(score - maximum); state and `correction` (what earlier sums are to be multiplied by) follow. kPairs: of
// bfloat16, two keys in a row. kScaled: scores are `factor`, which is positive, times what is there. known_top: each lane's largest score,
// where it was found before.
template <class T, int kVectors, bool kPairs = false, bool kScaled = false, bool kFar = false>
HWY_NOINLINE void soften(int64_t count, T *scores, const LaneState<T> &state, T *correction, [[maybe_unused]] T factor = 1,
                         const T *known_top = nullptr) {
    const Tag<T> d;
    Vec<T> scale = hn::Set(d, factor);
    const Vec<T> hidden = hn::Set(d, -std::numeric_limits<T>::infinity());
    Vec<T> top[kVectors];
    for (int v = 0; v < kVectors; ++v) top[v] = hidden;
    for (int v = 0; known_top != nullptr && v < kVectors; ++v) top[v] = hn::Load(d, known_top + v * kLanes<T>);
    for (int64_t j = 0; known_top == nullptr && j < count; ++j) {
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kVectors; ++v) top[v] = hn::Max(top[v], hn::Load(d, scores + j * kPanel<T> + v * kLanes<T>));
    }
    Vec<T> base[kVectors], sum[kVectors];
    ATTILE_CPU_UNROLL
    for (int v = 0; v < kVectors; ++v) {
        const Vec<T> before = hn::Load(d, state.maximum + v * kLanes<T>);
        if constexpr (kScaled) top[v] = hn::Mul(top[v], scale);
        const Vec<T> now = hn::Max(before, top[v]);
        // Lanes that have seen no key keep -inf, and subtract 0 instead of it.
        base[v] = hn::IfThenElse(hn::Eq(now, hidden), hn::Zero(d), now);
        hn::Store(now, d, state.maximum + v * kLanes<T>);
        const Vec<T> fallen = hn::Sub(before, base[v]);
        const Vec<T> keep = exp_clamped(d, fallen);
        hn::Store(kFar ? hn::IfThenElseZero(is_not_far<T>(fallen), keep) : keep, d, correction + v * kLanes<T>);
        sum[v] = hn::Zero(d);
    }
    if constexpr (kScaled) {
        // Product and difference are one rounding, so a maximum is off 0 by that of its product, which must not be much.
        const Vec<T> most_off = hn::Set(d, static_cast<T>(1 << 20));
        bool far = false;
        for (int v = 0; v < kVectors; ++v) far |= !hn::AllFalse(d, hn::Gt(hn::Abs(base[v]), most_off));
        for (int64_t i = 0; far && i < count * kPanel<T>; i += kLanes<T>) hn::Store(hn::Mul(hn::Load(d, scores + i), scale), d, scores + i);
        if (far) scale = hn::Set(d, T{1});
    }
    // Several keys at a time; each lane's weights are added in the order of keys all the same.
    constexpr int kTogether = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON ? 2 : 1;
    for (int64_t j = 0; j < count;) {
        const int64_t end = least(count, j + kWeightRun);
        Vec<T> run[kVectors];
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kVectors; ++v) run[v] = hn::Zero(d);
        for (; j + kTogether <= end; j += kTogether) {
            soften_keys<T, kVectors, kTogether, kPairs, kScaled, kFar>(scores + j * kPanel<T>, scores + j / 2 * kPanel<T>, scale, base,
                                                                       run);
        }
        for (; j < end; ++j)
            soften_keys<T, kVectors, 1, kPairs, kScaled, kFar>(scores + j * kPanel<T>, scores + j / 2 * kPanel<T>, scale, base, run);
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kVectors; ++v) sum[v] = hn::Add(sum[v], run[v]);
    }
    ATTILE_CPU_UNROLL
    for (int v = 0; v < kVectors; ++v) {
        LongSum<Tag<T>> weights{hn::Load(d, state.sum + v * kLanes<T>), hn::Load(d, state.rounded_off + v * kLanes<T>)};
        weights.scale(hn::Load(d, correction + v * kLanes<T>));
        weights.add(sum[v]);
        hn::Store(weights.total, d, state.sum + v * kLanes<T>);
        hn::Store(weights.rounded_off, d, state.rounded_off + v * kLanes<T>);
    }
}

// The same of scores that are finished, as the problem's distances want it.
template <class T, int kVectors, bool kPairs = false>
void soften_finished(const attile_attention_problem &p, int64_t count, T *scores, const LaneState<T> &state, T *correction,
                     const T *known_top = nullptr) {
    const auto soften_scores = p.alibi_slopes.data == nullptr ? soften<T, kVectors, kPairs> : soften<T, kVectors, kPairs, false, true>;
    soften_scores(count, scores, state, correction, 1, known_top);
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
