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

// Calls sink(vector, key, lane) for every key and each vector of `width` lanes, `lanes` of which are there, of an operand with axes b, h,
// i, j (bias, allowed), whose rows begin at `offset`, by the operand's own step from key to key.
template <class T, class S, class Sink>
HWY_INLINE void each_of_operand(const attile_operand &x, const int64_t *offset, int64_t lanes, int64_t width, int64_t from, int64_t count,
                                const Sink &sink) {
    bool equal = true;
    for (int64_t w = 0; w < width; ++w) equal = equal && offset[w] == offset[0];
    const S *data = static_cast<const S *>(x.data) + from * x.stride[3];
    if (!equal) {
        each_gathered<T, S>(data, offset, x.stride[3], lanes, count, width, sink);
        return;
    }
    const Tag<T> d;
    for (int64_t j = 0; j < count; ++j) {
        const Vec<T> v = hn::Set(d, to_compute<T>(data[offset[0] + j * x.stride[3]]));
        for (int64_t w = 0; w < width; w += kLanes<T>) sink(v, j, w);
    }
}

// Calls fn(vector of scores, key, lane) -> vector on every vector of the tile.
template <class T, class Fn>
HWY_INLINE void each_score(int64_t count, T *scores, Fn &&fn) {
    const Tag<T> d;
    for (int64_t j = 0; j < count; ++j) {
        ATTILE_CPU_UNROLL
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
    const Tag<T> d;
    const Softcap<T> cap(softcap);
    constexpr int kTogether = kPanel<T> / kLanes<T>;
    for (int64_t j = 0; j < count; ++j, scores += kPanel<T>) {
        Vec<T> s[kTogether];
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kTogether; ++i) s[i] = hn::Load(d, scores + i * kLanes<T>);
        cap.template each<kTogether>(s);
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kTogether; ++i) hn::Store(s[i], d, scores + i * kLanes<T>);
    }
}

// scores = scale x scores + bias. exact: a bias of -inf hides, whatever the score is; else a score that is not finite makes NaN of it.
// `top` takes in each lane's largest.
template <class T, bool kExact>
HWY_NOINLINE void add_bias_to(const attile_operand &x, const Lanes &lanes, int64_t from, int64_t count, T scale, T *scores, T *top) {
    const Tag<T> d;
    const Vec<T> hidden = hn::Set(d, -std::numeric_limits<T>::infinity());
    with_storage<T>(x.dtype, [&](auto s) HWY_ATTR {
        // By value: in registers, since a store to scores could change what is named by address.
        const Vec<T> factor = hn::Set(d, scale);
        for (int64_t w = 0; w < lanes.count; w += kLanes<T>) {
            T *const first = scores + w;
            Vec<T> largest = hn::Load(d, top + w);
            each_of_operand<T, decltype(s)>(x, lanes.bias + w, least(lanes.count - w, kLanes<T>), kLanes<T>, from, count,
                                            [=, &largest](Vec<T> bias, int64_t j, int64_t) HWY_ATTR {
                                                T *const score = first + j * kPanel<T>;
                                                Vec<T> sum = hn::MulAdd(hn::Load(d, score), factor, bias);
                                                if (kExact) sum = hn::IfThenElse(hn::Eq(bias, hidden), hidden, sum);
                                                hn::Store(sum, d, score);
                                                largest = hn::Max(largest, sum);
                                            });
            hn::Store(largest, d, top + w);
        }
    });
}

template <class T>
void add_bias(const attile_operand &x, bool exact, const Lanes &lanes, int64_t from, int64_t count, T scale, T *scores, T *top) {
    (exact ? add_bias_to<T, true> : add_bias_to<T, false>)(x, lanes, from, count, scale, scores, top);
}

// scores = scale x scores - slope |distance|. `top` takes in each lane's largest.
template <class T>
HWY_NOINLINE void add_alibi(const AttentionEntry &entry, const Lanes &lanes, int64_t from, int64_t count, T scale, T *scores, T *top) {
    const Tag<T> d;
    HWY_ALIGN T slope[kPanel<T>], distance[kPanel<T>];
    for (int64_t w = 0; w < kPanel<T>; ++w) {
        slope[w] = static_cast<T>(lanes.slope[w]);
        distance[w] = static_cast<T>(from - lanes.row[w] - entry.alibi_shift);
    }
    const Vec<T> factor = hn::Set(d, scale);
    Vec<T> largest[kPanel<T> / kLanes<T>];
    ATTILE_CPU_UNROLL
    for (int64_t w = 0; w < kPanel<T>; w += kLanes<T>) largest[w / kLanes<T>] = hn::Load(d, top + w);
    each_score<T>(count, scores, [&](Vec<T> s, int64_t j, int64_t w) HWY_ATTR {
        const Vec<T> away = hn::Abs(hn::Add(hn::Load(d, distance + w), hn::Set(d, static_cast<T>(j))));
        const Vec<T> sum = hn::NegMulAdd(hn::Load(d, slope + w), away, hn::Mul(s, factor));
        largest[w / kLanes<T>] = hn::Max(largest[w / kLanes<T>], sum);
        return sum;
    });
    ATTILE_CPU_UNROLL
    for (int64_t w = 0; w < kPanel<T>; w += kLanes<T>) hn::Store(largest[w / kLanes<T>], d, top + w);
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

// Bytes of a boolean mask, 16 rows at a time: turned from rows to lanes as bytes, not as numbers four times as long. Lanes from count on
// are those of some row. `top` takes in each lane's largest score, on AVX-512 alone. Returns how many keys are done.
inline int64_t hide_by_bytes(const Byte *rows, const int64_t *offset, int64_t count, float *scores, [[maybe_unused]] float *top) {
    const Tag<float> d;
#if HWY_TARGET == HWY_AVX3
    // 64 keys: each block of 16 bytes of a vector is a square of its own, and bits say which of its numbers are 0.
    const Tag<uint8_t> d8;
    for (int64_t w = 0; w < kPanel<float>; w += 16) {
        ask_rows<0>(rows, offset, w, w + 16, kPanel<float>, count);
        Vec<float> largest = hn::Load(d, top + w);
        for (int64_t j = 0; j < count; j += 64) {
            const int64_t keys = least(count - j, 64);
            const auto there = hn::FirstN(d8, static_cast<size_t>(keys));
            Vec<uint8_t> square[16];
            auto shown = hn::Set(d8, 0xff);
            ATTILE_CPU_UNROLL
            for (int i = 0; i < 16; ++i) {
                square[i] = hn::MaskedLoad(there, d8, reinterpret_cast<const uint8_t *>(rows) + offset[w + i] + j);
                shown = hn::Min(shown, square[i]);
            }
            float *const first = scores + j * kPanel<float> + w;
            if (hn::AllFalse(d8, hn::And(there, hn::Eq(shown, hn::Zero(d8))))) {
                for (int64_t i = 0; i < keys; ++i) largest = hn::Max(largest, hn::Load(d, first + i * kPanel<float>));
                continue;
            }
            ATTILE_CPU_UNROLL
            for (int round = 0; round < 4; ++round) {
                Vec<uint8_t> next[16];
                ATTILE_CPU_UNROLL
                for (int i = 0; i < 8; ++i) {
                    next[2 * i] = hn::InterleaveLower(d8, square[i], square[i + 8]);
                    next[2 * i + 1] = hn::InterleaveUpper(d8, square[i], square[i + 8]);
                }
                ATTILE_CPU_UNROLL
                for (int i = 0; i < 16; ++i) square[i] = next[i];
            }
            HWY_ALIGN uint16_t bits[16 * 4];
            ATTILE_CPU_UNROLL
            for (int i = 0; i < 16; ++i) hn::StoreMaskBits(d8, hn::Eq(square[i], hn::Zero(d8)), reinterpret_cast<uint8_t *>(bits + 4 * i));
            const auto hidden = hn::Set(d, -std::numeric_limits<float>::infinity());
            for (int64_t i = 0; i < keys; ++i) {
                const auto hides = hn::LoadMaskBits(d, reinterpret_cast<const uint8_t *>(bits + i % 16 * 4 + i / 16));
                const Vec<float> score = hn::IfThenElse(hides, hidden, hn::Load(d, first + i * kPanel<float>));
                hn::Store(score, d, first + i * kPanel<float>);
                largest = hn::Max(largest, score);
            }
        }
        hn::Store(largest, d, top + w);
    }
    return count;
#else
    // 16 keys.
    count = count / 16 * 16;
    const hn::FixedTag<uint8_t, 16> bytes;
    const hn::Rebind<uint8_t, Tag<float>> of_lanes;
    const Tag<uint32_t> wide;
    const auto hidden = hn::Set(d, -std::numeric_limits<float>::infinity());
    for (int64_t w = 0; w < kPanel<float>; w += 16) {
        for (int64_t j = 0; j < count; j += 16) {
            hn::Vec<decltype(bytes)> square[16], most = hn::Zero(bytes);
            for (int i = 0; i < 16; ++i) {
                square[i] = hn::LoadU(bytes, reinterpret_cast<const uint8_t *>(rows) + offset[w + i] + j);
                const auto is_zero = hn::VecFromMask(bytes, hn::Eq(square[i], hn::Zero(bytes)));
                most = hn::Or(most, is_zero);
            }
            if (hn::AllTrue(bytes, hn::Eq(most, hn::Zero(bytes)))) continue;
            // Each round interleaves the first half of the vectors with the second: after four, rows have become columns.
            for (int round = 0; round < 4; ++round) {
                hn::Vec<decltype(bytes)> next[16];
                for (int i = 0; i < 8; ++i) {
                    next[2 * i] = hn::InterleaveLower(bytes, square[i], square[i + 8]);
                    next[2 * i + 1] = hn::InterleaveUpper(bytes, square[i], square[i + 8]);
                }
                for (int i = 0; i < 16; ++i) square[i] = next[i];
            }
            HWY_ALIGN uint8_t lanes[16 * 16];
            for (int i = 0; i < 16; ++i) hn::Store(square[i], bytes, lanes + 16 * i);
            for (int64_t i = 0; i < 16; ++i) {
                for (int64_t v = 0; v < 16; v += kLanes<float>) {
                    const auto shows = hn::PromoteTo(wide, hn::LoadU(of_lanes, lanes + 16 * i + v));
                    hn::BlendedStore(hidden, hn::RebindMask(d, hn::Eq(shows, hn::Zero(wide))), d, scores + (j + i) * kPanel<float> + w + v);
                }
            }
        }
    }
    return count;
#endif
}

// Returns whether `top` has taken in each lane's largest score.
template <class T>
HWY_NOINLINE bool hide_by_allowed(const attile_operand &allowed, const Lanes &lanes, int64_t from, int64_t count, T *scores, T *top) {
    const Tag<T> d;
    const Vec<T> hidden = hn::Set(d, -std::numeric_limits<T>::infinity());
    if constexpr (sizeof(T) == 4 && kPanel<T> % 16 == 0 && 16 % kLanes<T> == 0) {
        if (allowed.stride[3] == 1) {
            const int64_t done = hide_by_bytes(static_cast<const Byte *>(allowed.data) + from, lanes.allowed, count, scores, top);
            if (done == count && HWY_TARGET == HWY_AVX3) return true;
            from += done;
            count -= done;
            scores += done * kPanel<T>;
        }
    }
    each_of_operand<T, Byte>(allowed, lanes.allowed, lanes.count, kPanel<T>, from, count, [&](Vec<T> shows, int64_t j, int64_t w) HWY_ATTR {
        T *const score = scores + j * kPanel<T> + w;
        hn::Store(hn::IfThenElse(hn::Eq(shows, hn::Zero(d)), hidden, hn::Load(d, score)), d, score);
    });
    return false;
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

template <class T>
HWY_NOINLINE void hide_by_sparse_mask(const attile_attention_problem &p, const AttentionEntry &entry, const Lanes &lanes, int64_t from,
                                      int64_t count, T *scores) {
    for (int64_t w = 0; w < lanes.count; ++w) {
        hide_sparse(p, entry, lanes.head[w], lanes.row[w], from, count, [&](int64_t begin, int64_t end) {
            for (int64_t j = begin; j < end; ++j) scores[j * kPanel<T> + w] = -std::numeric_limits<T>::infinity();
        });
    }
}

// Calls take(begin, end) for each run of the keys from .. to that the block mask shows some lane; with BATCH_INVARIANT for all of them at
// once, since where a run begins shows in the last bits, and other lanes decide about it.
template <class Take>
void for_each_shown_run(const attile_attention_problem &p, const AttentionEntry &entry, const Lanes &lanes, int64_t from, int64_t to,
                        const Take &take) {
    const auto shows = [&](int64_t begin, int64_t end) {
        for (int64_t w = 0; w < lanes.count; ++w) {
            if (shows_some_block(p, entry, lanes.head[w], lanes.row[w], begin, end)) return true;
        }
        return false;
    };
    if (from >= to) return;
    if (p.block_mask.data == nullptr || (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0) {
        if (shows(from, to)) take(from, to);
        return;
    }
    for (int64_t begin = from; begin < to;) {
        int64_t end = begin;
        const auto next = [&] { return least(to, (end / ATTILE_MASK_BLOCK + 1) * ATTILE_MASK_BLOCK); };
        while (end < to && shows(end, next())) end = next();
        if (begin < end) take(begin, end);
        begin = end < to ? next() : to;
    }
}

// Whether the block mask shows some row of the panels one of the keys from .. to.
inline bool some_panel_is_shown(const attile_attention_problem &p, const AttentionEntry &entry, const Lanes *lanes, int64_t panels,
                                int64_t from, int64_t to) {
    bool shown = p.block_mask.data == nullptr;
    for (int64_t n = 0; n < panels && !shown; ++n) {
        for_each_shown_run(p, entry, lanes[n], most(from, lanes[n].begin_min), least(to, lanes[n].end_max),
                           [&](int64_t, int64_t) { shown = true; });
    }
    return shown;
}

// Prefetches what finish_scores will read of bias and allowed.
template <class T>
HWY_NOINLINE void ask_options(const attile_attention_problem &p, const Lanes &lanes, int64_t from, int64_t count) {
    if (p.bias.data != nullptr && p.bias.stride[3] == 1) {
        with_storage<T>(p.bias.dtype, [&](auto s) {
            ask_rows<0>(static_cast<const decltype(s) *>(p.bias.data) + from, lanes.bias, 0, lanes.count, lanes.count, count);
        });
    }
    if (p.allowed.data != nullptr && p.allowed.stride[3] == 1) {
        ask_rows<0>(static_cast<const Byte *>(p.allowed.data) + from, lanes.allowed, 0, lanes.count, lanes.count, count);
    }
}

// How scores are finished. exact: as searching, below; else a score that is not finite may become NaN where it should be hidden, which
// some sum of values shows. scale: what scores are still to be multiplied by, where the problem adds to them (scales_late).
// top: takes in each lane's largest score; NULL: not asked for.
template <class T>
struct Finish {
    bool exact;
    T scale;
    T *top = nullptr;
};
// hides: whether some pair of the tile may be hidden. has_top: whether the largest scores were found on the way.
struct Finished {
    bool hides, has_top;
};

// Everything between the product and the softmax, for keys from .. from + count. key_hidden: keys without a page, or NULL.
// slopes: for backward, what softcap leaves of a change, 1 - tanh^2; or NULL.
template <class T>
Finished finish_scores(const attile_attention_problem &p, const AttentionEntry &entry, const Lanes &lanes, int64_t from, int64_t count,
                       const uint8_t *key_hidden, Finish<T> how, T *scores, T *slopes = nullptr) {
    if (p.softcap != 0) {
        // What is still to be scaled has a cap that is, too.
        const double cap = p.softcap / static_cast<double>(how.scale);
        if (slopes != nullptr) {
            cap_scores_and_slopes<T>(cap, count, scores, slopes);
        } else {
            cap_scores<T>(cap, count, scores);
        }
    }
    // The largest are those that the last change leaves: what an earlier one finds goes nowhere.
    HWY_ALIGN T unasked[kPanel<T>] = {};
    if (p.bias.data != nullptr) {
        T *const top = how.top != nullptr && p.alibi_slopes.data == nullptr && p.allowed.data == nullptr ? how.top : unasked;
        add_bias<T>(p.bias, how.exact, lanes, from, count, how.scale, scores, top);
        how.scale = 1;
    }
    if (p.alibi_slopes.data != nullptr) {
        T *const top = how.top != nullptr && p.allowed.data == nullptr ? how.top : unasked;
        add_alibi<T>(entry, lanes, from, count, how.scale, scores, top);
    }
    const bool ragged = !lanes.whole(from, from + count);
    if (ragged) hide_by_range<T>(lanes, from, count, scores);
    bool has_top = !ragged && (p.bias.data != nullptr || p.alibi_slopes.data != nullptr);
    if (p.allowed.data != nullptr) {
        has_top = hide_by_allowed<T>(p.allowed, lanes, from, count, scores, how.top != nullptr ? how.top : unasked);
    }
    if (key_hidden != nullptr) {
        hide_keys<T>(key_hidden, count, scores);
        has_top = false;
    }
    const bool sparse = has_sparse_mask(p);
    if (sparse) {
        hide_by_sparse_mask<T>(p, entry, lanes, from, count, scores);
        has_top = false;
    }
    const bool hides = ragged || p.bias.data != nullptr || p.allowed.data != nullptr || key_hidden != nullptr || sparse;
    return {hides, has_top && how.top != nullptr};
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
