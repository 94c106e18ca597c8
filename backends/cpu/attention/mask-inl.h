// SPDX-License-Identifier: Apache-2.0
// What happens to a tile of scores between the product and the softmax: softcap, bias, ALiBi, and hiding by setting to -inf.
#if defined(ATTILE_CPU_ATTENTION_MASK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_ATTENTION_MASK_INL_H
#undef ATTILE_CPU_ATTENTION_MASK_INL_H
#else
#define ATTILE_CPU_ATTENTION_MASK_INL_H
#endif

#include "attention/attention.h"
#include "attention/lanes-inl.h"
#include "attention/tile-inl.h"
#include "gemm/pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

// A T for every key and lane from an operand with axes b, h, i, j (bias, allowed), by the operand's own strides.
template <class T, class S>
void gather_tile(const attile_operand &x, int64_t b, const Lanes &lanes, int64_t from, int64_t count, int64_t *offset, T *tile) {
    bool equal = true;
    for (int64_t w = 0; w < kPanel<T>; ++w) {
        offset[w] = offset_of(x, b, lanes.head[w], lanes.row[w], from);
        equal = equal && offset[w] == offset[0];
    }
    const S *data = static_cast<const S *>(x.data);
    if (!equal) {
        gather_rows<T, S>(data, offset, x.stride[3], lanes.count, count, tile, kPanel<T>);
        return;
    }
    const Tag<T> d;
    for (int64_t j = 0; j < count; ++j) {
        const Vec<T> v = hn::Set(d, to_compute<T>(data[offset[0] + j * x.stride[3]]));
        for (int64_t w = 0; w < kPanel<T>; w += kLanes<T>) hn::Store(v, d, tile + j * kPanel<T> + w);
    }
}

// Calls fn(vector of scores, key, lane) -> vector on every vector of the tile.
template <class T, class Fn>
HWY_INLINE void each_score(int64_t count, T *scores, Fn &&fn) {
    const Tag<T> d;
    for (int64_t j = 0; j < count; ++j) {
        for (int64_t w = 0; w < kPanel<T>; w += kLanes<T>) {
            T *score = scores + j * kPanel<T> + w;
            hn::Store(fn(hn::Load(d, score), j, w), d, score);
        }
    }
}

// Steps that only some problems need: kept out of line, so that plain attention does not carry them.
template <class T>
HWY_NOINLINE void cap_scores_and_slopes(double softcap, int64_t count, T *scores, T *slopes) {
    const Tag<T> d;
    const Softcap<T> cap(softcap);
    each_score<T>(count, scores, [&](Vec<T> s, int64_t j, int64_t w) HWY_ATTR {
        Vec<T> t;
        const Vec<T> capped = cap(s, &t);
        hn::Store(hn::NegMulAdd(t, t, hn::Set(d, T{1})), d, slopes + j * kPanel<T> + w);
        return capped;
    });
}

template <class T>
HWY_NOINLINE void cap_scores(double softcap, int64_t count, T *scores) {
    const Softcap<T> cap(softcap);
    each_score<T>(count, scores, [&](Vec<T> s, int64_t, int64_t) HWY_ATTR { return cap(s); });
}

template <class T>
HWY_NOINLINE void add_bias(const attile_attention_problem &p, int64_t b, const Lanes &lanes, int64_t from, int64_t count, T *scores,
                           int64_t *offset, T *tile) {
    const Tag<T> d;
    with_storage<T>(p.bias.dtype, [&](auto s) HWY_ATTR { gather_tile<T, decltype(s)>(p.bias, b, lanes, from, count, offset, tile); });
    const Vec<T> hidden = hn::Set(d, -std::numeric_limits<T>::infinity());
    each_score<T>(count, scores, [&](Vec<T> s, int64_t j, int64_t w) HWY_ATTR {
        const Vec<T> bias = hn::Load(d, tile + j * kPanel<T> + w);
        // A bias of -inf hides, whatever the score is.
        return hn::IfThenElse(hn::Eq(bias, hidden), hidden, hn::Add(s, bias));
    });
}

template <class T>
HWY_NOINLINE void add_alibi(const attile_attention_problem &p, const AttentionEntry &entry, const Lanes &lanes, int64_t from, int64_t count,
                            T *scores) {
    const Tag<T> d;
    HWY_ALIGN T slope[kPanel<T>], distance[kPanel<T>];
    for (int64_t w = 0; w < kPanel<T>; ++w) {
        slope[w] = load_element<T>(p.alibi_slopes.data, p.alibi_slopes.dtype, offset_of(p.alibi_slopes, entry.b, lanes.head[w]));
        distance[w] = static_cast<T>(from - lanes.row[w] - entry.alibi_shift);
    }
    each_score<T>(count, scores, [&](Vec<T> s, int64_t j, int64_t w) HWY_ATTR {
        const Vec<T> away = hn::Abs(hn::Add(hn::Load(d, distance + w), hn::Set(d, static_cast<T>(j))));
        return hn::NegMulAdd(hn::Load(d, slope + w), away, s);
    });
}

template <class T>
HWY_NOINLINE void hide_by_range(const Lanes &lanes, int64_t from, int64_t count, T *scores) {
    const Tag<T> d;
    HWY_ALIGN T begin[kPanel<T>], end[kPanel<T>];
    for (int64_t w = 0; w < kPanel<T>; ++w) {
        begin[w] = static_cast<T>(most(0, least(lanes.begin[w] - from, count)));
        end[w] = static_cast<T>(most(0, least(lanes.end[w] - from, count)));
    }
    const Vec<T> hidden = hn::Set(d, -std::numeric_limits<T>::infinity());
    each_score<T>(count, scores, [&](Vec<T> s, int64_t j, int64_t w) HWY_ATTR {
        const Vec<T> key = hn::Set(d, static_cast<T>(j));
        const auto seen = hn::And(hn::Ge(key, hn::Load(d, begin + w)), hn::Lt(key, hn::Load(d, end + w)));
        return hn::IfThenElse(seen, s, hidden);
    });
}

template <class T>
HWY_NOINLINE void hide_by_allowed(const attile_attention_problem &p, int64_t b, const Lanes &lanes, int64_t from, int64_t count, T *scores,
                                  int64_t *offset, T *tile) {
    const Tag<T> d;
    gather_tile<T, Byte>(p.allowed, b, lanes, from, count, offset, tile);
    const Vec<T> hidden = hn::Set(d, -std::numeric_limits<T>::infinity());
    each_score<T>(count, scores, [&](Vec<T> s, int64_t j, int64_t w) HWY_ATTR {
        return hn::IfThenElse(hn::Eq(hn::Load(d, tile + j * kPanel<T> + w), hn::Zero(d)), hidden, s);
    });
}

template <class T>
HWY_NOINLINE void hide_keys(const uint8_t *key_hidden, int64_t count, T *scores) {
    const Tag<T> d;
    const Vec<T> hidden = hn::Set(d, -std::numeric_limits<T>::infinity());
    for (int64_t j = 0; j < count; ++j) {
        if (key_hidden[j] == 0) continue;
        for (int64_t w = 0; w < kPanel<T>; w += kLanes<T>) hn::Store(hidden, d, scores + j * kPanel<T> + w);
    }
}

// Everything between the product and the softmax, for keys from .. from + count. key_hidden: keys without a page, or NULL.
// slopes: for backward, what softcap leaves of a change, 1 - tanh^2; or NULL. Returns whether some pair of the tile may be hidden.
template <class T>
bool finish_scores(const attile_attention_problem &p, const AttentionEntry &entry, const Lanes &lanes, int64_t from, int64_t count,
                   const uint8_t *key_hidden, T *scores, int64_t *offset, T *tile, T *slopes = nullptr) {
    if (p.softcap != 0) {
        if (slopes != nullptr) {
            cap_scores_and_slopes<T>(p.softcap, count, scores, slopes);
        } else {
            cap_scores<T>(p.softcap, count, scores);
        }
    }
    if (p.bias.data != nullptr) add_bias<T>(p, entry.b, lanes, from, count, scores, offset, tile);
    if (p.alibi_slopes.data != nullptr) add_alibi<T>(p, entry, lanes, from, count, scores);
    const bool ragged = !lanes.whole(from, from + count);
    if (ragged) hide_by_range<T>(lanes, from, count, scores);
    if (p.allowed.data != nullptr) hide_by_allowed<T>(p, entry.b, lanes, from, count, scores, offset, tile);
    if (key_hidden != nullptr) hide_keys<T>(key_hidden, count, scores);
    return ragged || p.bias.data != nullptr || p.allowed.data != nullptr || key_hidden != nullptr;
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
