// SPDX-License-Identifier: Apache-2.0
// A block of keys, and one panel's part of it: scores, softmax, sums of values.
#if defined(ATTILE_CPU_ATTENTION_PANEL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_ATTENTION_PANEL_INL_H
#undef ATTILE_CPU_ATTENTION_PANEL_INL_H
#else
#define ATTILE_CPU_ATTENTION_PANEL_INL_H
#endif

#include "attention/keys-inl.h"
#include "attention/lanes-inl.h"
#include "attention/mask-inl.h"
#include "attention/pairs-inl.h"
#include "attention/scratch-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

template <class T, int kVectors>
HWY_INLINE void panel_scores(int64_t head_dim, const KeySource<T> &source, const T *k_panels, int64_t block, int64_t from, int64_t count,
                             const T *queries, T scale, T *scores, Coming &coming) {
    if (kPackKeys && k_panels != nullptr) {
        compute_packed_scores<T, kVectors>(head_dim, k_panels, kTileRows * head_dim, from - block, count, queries, scale, scores, &coming);
    } else {
        compute_scores<T, kVectors>(head_dim, source.key(from), source.key_step(), count, queries, scale, scores, &coming);
    }
}

template <class T, int kVectors>
HWY_INLINE void add_panel_values(bool in_runs, int64_t head_dim_v, const T *values, int64_t value_step, int64_t count, const T *weights,
                                 const T *correction, T *sums, Coming &coming) {
    if (in_runs) {
        add_values<T, kVectors, true>(head_dim_v, values, value_step, count, weights, correction, sums, &coming);
    } else {
        add_values<T, kVectors>(head_dim_v, values, value_step, count, weights, correction, sums, &coming);
    }
}

// A block of keys, and one panel's part of it.
template <class T>
struct PanelBlock {
    const attile_attention_problem &p;
    const AttentionEntry &entry;
    const Lanes &lanes;
    int64_t from, count;
    const T *queries;
    T *sums;
    LaneState<T> state;
    bool searching, in_runs;

    // Without columns of values no sum shows what is not finite.
    Finish<T> finish(T scale) const { return {searching || p.head_dim_v == 0, scale, nullptr}; }
};

template <class T, int kVectors>
void panel_block(const ForwardScratch<T> &scratch, KeySource<T> &source, const T *k_panels, int64_t block_begin, const PanelBlock<T> &x,
                 Coming &keys_coming, Coming &values_coming) {
    const attile_attention_problem &p = x.p;
    ask_options<T>(p, x.lanes, x.from, x.count);
    panel_scores<T, kVectors>(p.head_dim, source, k_panels, block_begin, x.from, x.count, x.queries, static_cast<T>(p.scale),
                              scratch.scores, keys_coming);
    Finish<T> how = x.finish(1);
    HWY_ALIGN T top[kPanel<T>];
    how.top = top;
    for (T &lane : top) lane = -std::numeric_limits<T>::infinity();
    const Finished done = finish_scores<T>(p, x.entry, x.lanes, x.from, x.count, source.hidden(x.from), how, scratch.scores);
    if ((done.hides || x.searching) && !source.values_finite()) {
        // A hidden key may hold NaN or infinity: its weight of zero is left out, not multiplied.
        for (int64_t i = 0; i < x.count * kPanel<T>; ++i) scratch.tile[i] = scratch.scores[i];
        soften<T, 2>(x.count, scratch.scores, x.state, scratch.correction);
        add_seen_values<T>(p.head_dim_v, source.value(x.from), source.value_step(), x.count, scratch.scores, scratch.tile,
                           scratch.correction, x.sums);
        return;
    }
    soften_finished<T, kVectors>(p, x.count, scratch.scores, x.state, scratch.correction, done.has_top ? top : nullptr);
    add_panel_values<T, kVectors>(x.in_runs, p.head_dim_v, source.value(x.from), source.value_step(), x.count, scratch.scores,
                                  scratch.correction, x.sums, values_coming);
}

#if ATTILE_CPU_BRAIN_PAIRS
// The same from pairs of bfloat16: the block's keys are in scratch.k_pairs, its values in v_pairs.
template <int kVectors, class Scores, class Values>
void panel_block_of_pairs(const ForwardScratch<float> &scratch, KeySource<float, Brain> &source, const float *v_pairs, int64_t block_begin,
                          const PanelBlock<float> &x, Coming &keys_coming, Coming &values_coming) {
    const attile_attention_problem &p = x.p;
    const float *const values = v_pairs + (x.from - block_begin) / 2 * p.head_dim_v;
    const int64_t pairs = ceil_div(x.count, 2);
    compute_packed_scores<float, kVectors, Scores>(ceil_div(p.head_dim, 2), scratch.k_pairs, key_pairs_step(p.head_dim),
                                                   x.from - block_begin, x.count, x.queries, static_cast<float>(p.scale), scratch.scores,
                                                   &keys_coming);
    const bool hides = finish_scores<float>(p, x.entry, x.lanes, x.from, x.count, source.hidden(x.from), x.finish(1), scratch.scores).hides;
    if ((hides || x.searching) && !source.values_finite()) {
        for (int64_t i = 0; i < x.count * kPanel<float>; ++i) scratch.tile[i] = scratch.scores[i];
        soften<float, 2, true>(x.count, scratch.scores, x.state, scratch.correction);
        add_seen_pairs(p.head_dim_v, values, x.count, scratch.scores, scratch.tile, scratch.correction, x.sums);
        return;
    }
    soften_finished<float, kVectors, true>(p, x.count, scratch.scores, x.state, scratch.correction);
    if (x.in_runs) {
        add_values<float, kVectors, true, Values>(p.head_dim_v, values, p.head_dim_v, pairs, scratch.scores, scratch.correction, x.sums,
                                                  &values_coming);
    } else {
        add_values<float, kVectors, false, Values>(p.head_dim_v, values, p.head_dim_v, pairs, scratch.scores, scratch.correction, x.sums,
                                                   &values_coming);
    }
}
#endif

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
