// SPDX-License-Identifier: Apache-2.0
// Attention's products of bfloat16 by AMX (amx/tiles.h). Scores are keys, the thin operand, times a panel of queries in pairs, the wide
// one; sums are values, transposed into thin panels, times weights in pairs of keys. So both products take and leave what the softmax of a
// panel reads and writes.
//
// A panel takes groups of 32 keys, counted from key 0, whole; what it may not see of them is hidden. A group with tiny numbers is marked
// (gemm/brain-inl.h), and a panel that sees it goes through the kernels of pairs for that block.
#if defined(ATTILE_CPU_ATTENTION_TILES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_ATTENTION_TILES_INL_H
#undef ATTILE_CPU_ATTENTION_TILES_INL_H
#else
#define ATTILE_CPU_ATTENTION_TILES_INL_H
#endif

#include <limits>

#include "attention/mask-inl.h"
#include "attention/pairs-inl.h"
#include "gemm/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

static_assert(kTileKeys % kTilePanel == 0 && kSpanKeys % kTileKeys == 0);

#if ATTILE_CPU_TILES
static_assert(kPanel<float> == kTilePanel);

// The block's keys as thin panels of 32 keys, and a mark for each.
inline HWY_NOINLINE void tile_keys(const Brain *keys, int64_t key_step, int64_t count, int64_t head_dim, float *tiles, uint8_t *marks) {
    for (int64_t j = 0; j < count; j += kTilePanel, keys += kTilePanel * key_step) {
        TinySearch search;
        for (int64_t c = 0; c < head_dim; c += kTileStep, tiles += kTileStepFloats) {
            pack_thin_step(keys + c, key_step, 1, count - j, head_dim - c, StepSoon{0, 0}, tiles, search);
        }
        marks[j / kTilePanel] = search.found() ? 1 : 0;
    }
}

// The block's values as thin panels of 32 columns, all steps of 32 keys of each; a mark for each step.
inline HWY_NOINLINE void tile_values(const Brain *values, int64_t value_step, int64_t count, int64_t head_dim_v, float *tiles,
                                     uint8_t *marks) {
    for (int64_t j = 0; j < count; j += kTileStep, tiles += kTileStepFloats, values += kTileStep * value_step) {
        TinySearch search;
        for (int64_t c = 0; c < head_dim_v; c += kTilePanel) {
            pack_thin_step(values + c, 1, value_step, head_dim_v - c, count - j, StepSoon{0, 0},
                           tiles + c / kTilePanel * (kTileKeys / kTileStep) * kTileStepFloats, search);
        }
        marks[j / kTileStep] = search.found() ? 1 : 0;
    }
}

// Zeros behind pairs of queries, up to a whole step of a tile product.
inline void fill_queries(int64_t head_dim, float *queries) {
    const int64_t pairs = ceil_div(head_dim, 2);
    for (int64_t i = pairs * kPanel<float>; i < round_up(pairs, kTileStep / 2) * kPanel<float>; ++i) queries[i] = 0;
}

// Scores, not scaled yet, of groups of keys and a panel's queries; rows of scores past the last key become 0.
template <int kVectors>
HWY_INLINE void score_tiles(int64_t head_dim, const float *tiles, int64_t count, const float *queries, float *scores) {
    const int64_t steps = ceil_div(head_dim, kTileStep);
    for (int64_t j = 0; j < count; j += kTilePanel, tiles += steps * kTileStepFloats, scores += kTilePanel * kPanel<float>) {
        const auto fn = count - j > kTilePanel / 2 ? tile_product<2, kVectors> : tile_product<1, kVectors>;
        fn(steps, tiles, queries, nullptr, 0, scores, kPanel<float>);
    }
}

// sums = sums x correction + values^T weights, of steps of keys; weights are filled up with zeros to whole steps.
template <int kVectors>
HWY_NOINLINE void add_value_tiles(int64_t head_dim_v, const float *tiles, int64_t count, float *weights, const float *correction,
                                  float *sums) {
    const Tag<float> d;
    const int64_t steps = ceil_div(count, kTileStep);
    for (int64_t p = ceil_div(count, 2); p < steps * kTileStep / 2; ++p) {
        for (int64_t w = 0; w < kPanel<float>; w += kLanes<float>) hn::Store(hn::Zero(d), d, weights + p * kPanel<float> + w);
    }
    const auto one = hn::Set(d, 1.0f);
    bool changed = false;
    for (int64_t w = 0; w < kVectors * kLanes<float>; w += kLanes<float>)
        changed |= !hn::AllTrue(d, hn::Eq(hn::Load(d, correction + w), one));
    if (changed) scale_lanes<float>(head_dim_v, correction, sums);
    for (int64_t c = 0; c < head_dim_v;
         c += kTilePanel, tiles += kTileKeys / kTileStep * kTileStepFloats, sums += kTilePanel * kPanel<float>) {
        const auto fn = head_dim_v - c > kTilePanel / 2 ? tile_product<2, kVectors> : tile_product<1, kVectors>;
        fn(steps, tiles, weights, sums, kPanel<float>, sums, kPanel<float>);
    }
}

// Whether scores may wait for their scale until something is added to them or the softmax begins.
inline bool scales_late(float scale) { return scale >= std::numeric_limits<float>::min() && scale <= std::numeric_limits<float>::max(); }

// Keys whose scores are made and finished before the next: they stay in the L1 cache in between.
inline constexpr int64_t kFinishedKeys = 4 * kTilePanel;

#endif  // ATTILE_CPU_TILES
#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
