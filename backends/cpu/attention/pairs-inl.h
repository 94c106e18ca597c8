// SPDX-License-Identifier: Apache-2.0
// Attention's products of bfloat16 in pairs (AVX512-BF16, gemm/brain-inl.h): queries and keys in pairs along the head dimension, weights,
// which are rounded to bfloat16 for it, and values in pairs of keys. A pair begins with an even key, so a panel may look at a key before
// its first and one behind its last, which are hidden from it.
#if defined(ATTILE_CPU_ATTENTION_PAIRS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_ATTENTION_PAIRS_INL_H
#undef ATTILE_CPU_ATTENTION_PAIRS_INL_H
#else
#define ATTILE_CPU_ATTENTION_PAIRS_INL_H
#endif

#include <limits>

#include "attention/keys-inl.h"
#include "attention/tile-inl.h"
#include "gemm/brain-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR && ATTILE_CPU_BRAIN_PAIRS

// Elements of a block of packed keys, and of one of its panels.
constexpr int64_t key_pairs_step(int64_t head_dim) { return kTileRows * ceil_div(head_dim, 2) + kMarkFloats; }
constexpr int64_t key_pairs_size(int64_t head_dim) { return kBlockKeys / kTileRows * key_pairs_step(head_dim); }
static_assert(kBlockKeys % kTileRows == 0 && kBlockKeys % 2 == 0 && kPanelRun % 2 == 0 && kWeightRun % 2 == 0);

// A panel of queries as floats, whose low halves are zeros, becomes pairs in the same place; returns whether one is tiny.
inline HWY_NOINLINE bool pair_queries(int64_t head_dim, float *queries) {
    const Tag<float> d;
    const Tag<uint32_t> du;
    TinySearch search;
    for (int64_t c = 0; c < head_dim; c += 2) {
        for (int64_t w = 0; w < kPanel<float>; w += kLanes<float>) {
            const float *row = queries + c * kPanel<float> + w;
            const auto low = hn::ShiftRight<16>(hn::BitCast(du, hn::Load(d, row)));
            const auto high = c + 1 < head_dim ? hn::BitCast(du, hn::Load(d, row + kPanel<float>)) : hn::Zero(du);
            const auto pair = hn::Or(low, high);
            search.look_at_pairs(pair);
            hn::Store(hn::BitCast(d, pair), d, queries + c / 2 * kPanel<float> + w);
        }
    }
    return search.found();
}

// Keys in panels of a tile's rows; returns whether one is marked.
inline bool pair_keys(const Brain *keys, int64_t key_step, int64_t count, int64_t head_dim, float *pairs) {
    pack_pair_panels(keys, ATTILE_BF16, 0, key_step, 1, count, head_dim, pairs, kTileRows);
    bool marked = false;
    for (int64_t n = 1; n <= ceil_div(count, kTileRows); ++n) marked |= is_marked(pairs + n * key_pairs_step(head_dim) - kMarkFloats);
    return marked;
}

// Values in pairs of keys, [pairs][head_dim_v]; a mark for each key.
inline HWY_NOINLINE void pair_values(const Brain *values, int64_t value_step, int64_t count, int64_t head_dim_v, float *pairs,
                                     uint8_t *marks) {
    const Tag<float> d;
    for (int64_t j = 0; j < count; ++j) {
        TinySearch search;
        search.look_at_row(values + j * value_step, head_dim_v);
        marks[j] = search.found() ? 1 : 0;
    }
    for (int64_t j = 0; j < count; j += 2, values += 2 * value_step, pairs += head_dim_v) {
        for (int64_t c = 0; c < head_dim_v; c += kLanes<float>) {
            const Vec<uint32_t> x = zip_rows(values + c, j + 1 < count ? values + value_step + c : nullptr, head_dim_v - c);
            store_first(d, hn::BitCast(d, x), pairs + c, head_dim_v - c);
        }
    }
}
inline bool any_mark(const uint8_t *marks, int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
        if (marks[n] != 0) return true;
    }
    return false;
}

// As add_seen_values, from pairs.
inline HWY_NOINLINE void add_seen_pairs(int64_t head_dim_v, const float *values, int64_t count, const float *weights, const float *scores,
                                        const float *correction, float *sums) {
    const Tag<float> d;
    const Tag<uint32_t> du;
    const auto hidden = hn::Set(d, -std::numeric_limits<float>::infinity());
    for (int64_t c = 0; c < head_dim_v; ++c) {
        for (int64_t w = 0; w < kPanel<float>; w += kLanes<float>) {
            Vec<float> acc = hn::Zero(d);
            const auto add_key = [&](int64_t j, Vec<uint32_t> value, Vec<uint32_t> weight) HWY_ATTR {
                const Vec<float> more = hn::MulAdd(hn::BitCast(d, value), hn::BitCast(d, weight), acc);
                acc = hn::IfThenElse(hn::Eq(hn::Load(d, scores + j * kPanel<float> + w), hidden), acc, more);
            };
            for (int64_t j = 0; j < count; j += 2) {
                const auto value = hn::BitCast(du, hn::Set(d, values[j / 2 * head_dim_v + c]));
                const auto weight = hn::BitCast(du, hn::Load(d, weights + j / 2 * kPanel<float> + w));
                const auto high = hn::Set(du, 0xffff0000u);
                if (j + 1 < count) add_key(j + 1, hn::And(value, high), hn::And(weight, high));
                add_key(j, hn::ShiftLeft<16>(value), hn::ShiftLeft<16>(weight));
            }
            float *sum = sums + c * kPanel<float> + w;
            hn::Store(hn::MulAdd(hn::Load(d, sum), hn::Load(d, correction + w), acc), d, sum);
        }
    }
}

#endif  // HWY_TARGET != HWY_SCALAR && ATTILE_CPU_BRAIN_PAIRS
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
