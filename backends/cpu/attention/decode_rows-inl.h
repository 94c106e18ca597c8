// SPDX-License-Identifier: Apache-2.0
// One row of few: its scores between the product and the softmax, and the softmax that goes on from block to block.
#if defined(ATTILE_CPU_DECODE_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_DECODE_ROWS_INL_H
#undef ATTILE_CPU_DECODE_ROWS_INL_H
#else
#define ATTILE_CPU_DECODE_ROWS_INL_H
#endif

#include <algorithm>

#include "attention/attention.h"
#include "attention/keys-inl.h"
#include "math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

// `count` rows of `width` elements side by side.
template <class S>
struct RowSpan {
    const S *rows = nullptr;
    int64_t step = 0, width = 0, count = 0;
};
// A block of keys and values as they pass, and the keys to be prefetched for the next.
template <class S>
struct DecodeBlock {
    RowSpan<S> keys, values, next_keys;
};

// Scores of one row lie this far from the next's: whole vectors.
inline constexpr int64_t kScoreStep = (kBlockKeys + 15) / 16 * 16;

// A row's scores between product and softmax; returns whether some key may be hidden from it.
template <class T>
bool finish_row(const attile_attention_problem &p, const AttentionEntry &entry, int64_t i, int64_t h, int64_t from, int64_t count,
                const uint8_t *key_hidden, T *scores, T *extra) {
    const Tag<T> d;
    const Vec<T> hidden = hn::Set(d, -std::numeric_limits<T>::infinity());
    const auto each = [&](auto &&fn) HWY_ATTR {
        for (int64_t j = 0; j < count; j += kLanes<T>) hn::Store(fn(hn::Load(d, scores + j), j), d, scores + j);
    };
    const Vec<T> scale = hn::Set(d, static_cast<T>(p.scale));
    each([&](Vec<T> s, int64_t) HWY_ATTR { return hn::Mul(s, scale); });
    if (p.softcap != 0) {
        const Softcap<T> cap(p.softcap);
        each([&](Vec<T> s, int64_t) HWY_ATTR { return cap(s); });
    }
    if (p.bias.data != nullptr) {
        with_storage<T>(p.bias.dtype, [&](auto s) HWY_ATTR {
            copy_row<T, decltype(s)>(operand_at<decltype(s)>(p.bias, entry.b, h, i, from), p.bias.stride[3], count, extra);
        });
        each([&](Vec<T> s, int64_t j) HWY_ATTR {
            const Vec<T> bias = hn::Load(d, extra + j);
            return hn::IfThenElse(hn::Eq(bias, hidden), hidden, hn::Add(s, bias));
        });
    }
    if (p.alibi_slopes.data != nullptr) {
        const Vec<T> slope = hn::Set(d, load_element<T>(p.alibi_slopes.data, p.alibi_slopes.dtype, offset_of(p.alibi_slopes, entry.b, h)));
        const Vec<T> distance = hn::Iota(d, static_cast<T>(from - i - entry.alibi_shift));
        each([&](Vec<T> s, int64_t j)
                 HWY_ATTR { return hn::NegMulAdd(slope, hn::Abs(hn::Add(distance, hn::Set(d, static_cast<T>(j)))), s); });
    }
    const KeyRange seen = visible_keys(p, entry, i);
    const bool ragged = seen.begin > from || seen.end < from + count;
    if (ragged) {
        for (int64_t j = 0; j < count; ++j) {
            if (from + j < seen.begin || from + j >= seen.end) scores[j] = -std::numeric_limits<T>::infinity();
        }
    }
    if (p.allowed.data != nullptr) {
        const Byte *allowed = operand_at<Byte>(p.allowed, entry.b, h, i, from);
        for (int64_t j = 0; j < count; ++j) {
            if (allowed[j * p.allowed.stride[3]] == 0) scores[j] = -std::numeric_limits<T>::infinity();
        }
    }
    if (key_hidden != nullptr) {
        for (int64_t j = 0; j < count; ++j) {
            if (key_hidden[j] != 0) scores[j] = -std::numeric_limits<T>::infinity();
        }
    }
    hide_sparse(p, entry, h, i, from, count,
                [&](int64_t begin, int64_t end) { std::fill(scores + begin, scores + end, -std::numeric_limits<T>::infinity()); });
    return ragged || p.bias.data != nullptr || p.allowed.data != nullptr || key_hidden != nullptr || has_sparse_mask(p);
}

// A row's numbers behind its sums: the maximum of its scores, the sum of its weights and what that has rounded off.
template <class T>
struct DecodeNumbers {
    T maximum, sum, rounded_off;

    // sum = sum x keep + more
    HWY_INLINE void go_on(T keep, T more, T more_rounded_off) {
        const Tag<T> d;
        LongSum<Tag<T>> weights{hn::Set(d, sum), hn::Set(d, rounded_off)};
        weights.scale(hn::Set(d, keep));
        weights.add(hn::Set(d, more));
        sum = hn::GetLane(weights.total);
        rounded_off = hn::GetLane(weights.rounded_off) + more_rounded_off;
    }
};
static_assert(sizeof(DecodeNumbers<float>) == kDecodeNumbers * sizeof(float));

template <class T>
HWY_INLINE DecodeNumbers<T> &numbers_behind(T *sums, int64_t head_dim_v) {
    return *reinterpret_cast<DecodeNumbers<T> *>(sums + head_dim_v);
}

// One row's scores become weights; its sums are brought to the new maximum.
template <class T>
void soften_row(int64_t count, T *scores, int64_t head_dim_v, T *sums) {
    DecodeNumbers<T> &numbers = numbers_behind(sums, head_dim_v);
    const Tag<T> d;
    constexpr T kHidden = -std::numeric_limits<T>::infinity();
    for (int64_t j = count; j % kLanes<T> != 0; ++j) scores[j] = kHidden;
    Vec<T> top = hn::Set(d, kHidden);
    for (int64_t j = 0; j < count; j += kLanes<T>) top = hn::Max(top, hn::Load(d, scores + j));
    const T now = hn::GetLane(hn::Max(hn::Set(d, numbers.maximum), hn::MaxOfLanes(d, top)));
    const T base = now == kHidden ? T{0} : now;
    const T factor = hn::GetLane(exp_clamped(d, hn::Set(d, numbers.maximum - base)));
    // Where vectors are short two sums in turn, so that a chain is no longer than a run of weights.
    constexpr bool kTwoSums = kBlockKeys > kWeightRun * kLanes<T>;
    Vec<T> sum = hn::Zero(d), other = hn::Zero(d);
    const auto soften = [&]<int kTogether>(int64_t j, std::integral_constant<int, kTogether>) HWY_ATTR {
        Vec<T> weight[kTogether];
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kTogether; ++i) weight[i] = hn::Sub(hn::Load(d, scores + j + i * kLanes<T>), hn::Set(d, base));
        exp_clamped_each<kTogether>(d, weight);
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kTogether; ++i) {
            hn::Store(weight[i], d, scores + j + i * kLanes<T>);
            sum = hn::Add(sum, weight[i]);
            if constexpr (kTwoSums) std::swap(sum, other);
        }
    };
    // Several vectors at a time, where registers hold them: one alone waits for each of its steps.
    constexpr int kTogether = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON ? 4 : 2;
    int64_t j = 0;
    for (; j + (kTogether - 1) * kLanes<T> < count; j += kTogether * kLanes<T>) soften(j, std::integral_constant<int, kTogether>());
    for (; j < count; j += kLanes<T>) soften(j, std::integral_constant<int, 1>());
    if constexpr (kTwoSums) sum = hn::Add(sum, other);
    numbers.go_on(factor, hn::GetLane(hn::SumOfLanes(d, sum)), 0);
    numbers.maximum = now;
    if (factor == 1) return;
    const Vec<T> scale = hn::Set(d, factor);
    for (int64_t c = 0; c < head_dim_v; c += kLanes<T>) {
        store_first(d, hn::Mul(load_first(d, sums + c, head_dim_v - c), scale), sums + c, head_dim_v - c);
    }
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
