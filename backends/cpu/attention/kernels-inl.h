// SPDX-License-Identifier: Apache-2.0
// Attention forward, for sums of type T: panels of query rows walk over blocks of keys.
//
// A task owns a few panels; each block of keys is brought into the L2 cache once for all of them. Blocks and tiles that no row of a
// panel sees are skipped. The next block's rows are prefetched, a few with each tile of this one. A row's result depends on its own keys
// alone, in blocks counted from key 0, and on whether values are summed in runs, so neither the division into tasks nor, with
// BATCH_INVARIANT, the batch changes a bit of it. Record: docs/kernels/cpu.md.
#if defined(ATTILE_CPU_ATTENTION_KERNELS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_ATTENTION_KERNELS_INL_H
#undef ATTILE_CPU_ATTENTION_KERNELS_INL_H
#else
#define ATTILE_CPU_ATTENTION_KERNELS_INL_H
#endif

#include <limits>

#include "attention/attention.h"
#include "attention/decode-inl.h"
#include "attention/keys-inl.h"
#include "attention/lanes-inl.h"
#include "attention/mask-inl.h"
#include "attention/pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

// A task's scratch memory, cut up.
template <class T>
struct ForwardScratch {
    T *queries, *sums, *maximum, *weight_sum, *rounded_off, *correction, *scores, *tile, *k_block, *v_block, *k_panels;
    T *k_pairs = nullptr;  // of bfloat16, as are values behind the half of v_block
    uint8_t *v_marks = nullptr, *q_marks = nullptr;
    T *total, *total_rounded_off, *total_maximum;  // where there are several spans of keys
    int64_t *lanes;                                // four arrays a panel
    int64_t *offset;
    uint8_t *key_hidden;

    LaneState<T> state(int64_t panel) const {
        return {maximum + panel * kPanel<T>, weight_sum + panel * kPanel<T>, rounded_off + panel * kPanel<T>};
    }
    PanelTotal<T> total_of(int64_t panel, int64_t sum_size) const {
        return {total + panel * sum_size, total_rounded_off + panel * sum_size, total_maximum + panel * kPanel<T>};
    }

    ForwardScratch(Cutter &cutter, const attile_attention_problem &p, int64_t panels) {
        queries = cutter.cut<T>(panels, p.head_dim, kPanel<T>);
        sums = cutter.cut<T>(panels, p.head_dim_v, kPanel<T>);
        maximum = cutter.cut<T>(panels, kPanel<T>);
        weight_sum = cutter.cut<T>(panels, kPanel<T>);
        rounded_off = cutter.cut<T>(panels, kPanel<T>);
        correction = cutter.cut<T>(kPanel<T>);
        scores = cutter.cut<T>(kBlockKeys, kPanel<T>);
        tile = cutter.cut<T>(kBlockKeys, kPanel<T>);
        k_block = cutter.cut<T>(kBlockKeys, p.head_dim);
        v_block = cutter.cut<T>(kBlockKeys, p.head_dim_v);
        k_panels = kPackKeys && panels >= kPanelsToPack ? cutter.cut<T>(kBlockKeys, p.head_dim) : nullptr;
        lanes = cutter.cut<int64_t>(panels, 4, kPanel<T>);
        offset = cutter.cut<int64_t>(kPanel<T>);
        key_hidden = cutter.cut<uint8_t>(kBlockKeys);
        const int64_t totals = p.len_k > kSpanKeys ? panels : 0;
        total = cutter.cut<T>(totals, p.head_dim_v, kPanel<T>);
        total_rounded_off = cutter.cut<T>(totals, p.head_dim_v, kPanel<T>);
        total_maximum = cutter.cut<T>(totals, kPanel<T>);
#if ATTILE_CPU_BRAIN_PAIRS
        if (sizeof(T) == 4 && p.k.dtype == ATTILE_BF16) {
            k_pairs = cutter.cut<T>(kBlockKeys / kTileRows, Size(kTileRows) * ceil_div(p.head_dim, 2) + kMarkFloats);
            v_marks = cutter.cut<uint8_t>(kBlockKeys);
            q_marks = cutter.cut<uint8_t>(panels);
        }
#endif
    }
};

template <class T>
int64_t forward_scratch_bytes(const attile_attention_problem &p, int64_t panels) {
    Cutter cutter(nullptr);
    static_cast<void>(ForwardScratch<T>(cutter, p, panels));
    return cutter.used();
}

// o = sums / weights and lse, with the sink if there is one.
template <class T>
HWY_NOINLINE void write_panel(const attile_attention_problem &p, const AttentionRows &rows, const Lanes &lanes, const LaneState<T> &state,
                              int64_t *offset, T *sums) {
    HWY_ALIGN T factor[kPanel<T>];
    for (int64_t w = 0; w < kPanel<T>; ++w) {
        const T hidden = -std::numeric_limits<T>::infinity();
        const T sink = p.sinks.data == nullptr
                           ? hidden
                           : load_element<T>(p.sinks.data, p.sinks.dtype, offset_of(p.sinks, rows.entry.b, lanes.head[w]));
        const SoftmaxEnd<T> end = softmax_end(state.maximum[w], state.sum[w] + state.rounded_off[w], sink, p.lse.data != nullptr);
        factor[w] = end.factor;
        if (p.lse.data != nullptr && w < lanes.count) {
            store_element<T>(p.lse.data, p.lse.dtype, offset_of(p.lse, rows.entry.b, lanes.head[w], rows.entry.q_start + lanes.row[w]),
                             end.lse);
        }
    }
    scale_lanes<T>(p.head_dim_v, factor, sums);
    store_lanes<T>(p.o, rows.entry, lanes, p.head_dim_v, offset, sums);
}

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
};

template <class T, int kVectors>
void panel_block(const ForwardScratch<T> &scratch, KeySource<T> &source, const T *k_panels, int64_t block_begin, const PanelBlock<T> &x,
                 Coming &keys_coming, Coming &values_coming) {
    const attile_attention_problem &p = x.p;
    panel_scores<T, kVectors>(p.head_dim, source, k_panels, block_begin, x.from, x.count, x.queries, static_cast<T>(p.scale),
                              scratch.scores, keys_coming);
    const bool hides =
        finish_scores<T>(p, x.entry, x.lanes, x.from, x.count, source.hidden(x.from), scratch.scores, scratch.offset, scratch.tile);
    if ((hides || x.searching) && !source.values_finite()) {
        // A hidden key may hold NaN or infinity: its weight of zero is left out, not multiplied.
        for (int64_t i = 0; i < x.count * kPanel<T>; ++i) scratch.tile[i] = scratch.scores[i];
        soften<T, 2>(x.count, scratch.scores, x.state, scratch.correction);
        add_seen_values<T>(p.head_dim_v, source.value(x.from), source.value_step(), x.count, scratch.scores, scratch.tile,
                           scratch.correction, x.sums);
        return;
    }
    soften<T, kVectors>(x.count, scratch.scores, x.state, scratch.correction);
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
    const bool hides =
        finish_scores<float>(p, x.entry, x.lanes, x.from, x.count, source.hidden(x.from), scratch.scores, scratch.offset, scratch.tile);
    if ((hides || x.searching) && !source.values_finite()) {
        for (int64_t i = 0; i < x.count * kPanel<float>; ++i) scratch.tile[i] = scratch.scores[i];
        soften<float, 2, true>(x.count, scratch.scores, x.state, scratch.correction);
        add_seen_pairs(p.head_dim_v, values, x.count, scratch.scores, scratch.tile, scratch.correction, x.sums);
        return;
    }
    soften<float, kVectors, true>(x.count, scratch.scores, x.state, scratch.correction);
    if (x.in_runs) {
        add_values<float, kVectors, true, Values>(p.head_dim_v, values, p.head_dim_v, pairs, scratch.scores, scratch.correction, x.sums,
                                                  &values_coming);
    } else {
        add_values<float, kVectors, false, Values>(p.head_dim_v, values, p.head_dim_v, pairs, scratch.scores, scratch.correction, x.sums,
                                                   &values_coming);
    }
}
#endif

// searching: scores may be -inf by themselves, so each block is searched for values that are not finite. Returns false, having written
// nothing, if some sum is not finite. S: what keys and values are read as, Brain for products of pairs.
template <class T, class S>
bool forward_once(const attile_attention_problem &p, const AttentionRows &rows, bool searching, char *memory) {
    constexpr bool kPairs = !std::is_same_v<S, T>;
    const int64_t panels = ceil_div(rows.end - rows.begin, kPanel<T>);
    Cutter cutter(memory);
    const ForwardScratch<T> scratch(cutter, p, panels);
    const int64_t query_size = p.head_dim * kPanel<T>, sum_size = p.head_dim_v * kPanel<T>;
    for (int64_t i = 0; i < panels * sum_size; ++i) scratch.sums[i] = 0;
    for (int64_t i = 0; i < panels * kPanel<T>; ++i) {
        scratch.maximum[i] = -std::numeric_limits<T>::infinity();
        scratch.weight_sum[i] = scratch.rounded_off[i] = 0;
    }
    int64_t first_key = std::numeric_limits<int64_t>::max(), last_key = 0;
    constexpr int64_t kMostPanels = 32;
    Lanes lanes[kMostPanels];
    for (int64_t n = 0; n < panels; ++n) {
        lanes[n] = make_lanes<T>(p, rows, rows.begin + n * kPanel<T>, scratch.lanes + n * 4 * kPanel<T>);
        first_key = least(first_key, lanes[n].begin_min);
        last_key = most(last_key, lanes[n].end_max);
        load_lanes<T>(p.q, rows.entry, lanes[n], p.head_dim, scratch.offset, scratch.queries + n * query_size);
#if ATTILE_CPU_BRAIN_PAIRS
        if constexpr (kPairs) scratch.q_marks[n] = pair_queries(p.head_dim, scratch.queries + n * query_size) ? 1 : 0;
#endif
    }
    const bool several_spans = last_key > (first_key / kSpanKeys + 1) * kSpanKeys;
    if (several_spans) {
        for (int64_t i = 0; i < panels * sum_size; ++i) scratch.total[i] = scratch.total_rounded_off[i] = 0;
        for (int64_t i = 0; i < panels * kPanel<T>; ++i) scratch.total_maximum[i] = -std::numeric_limits<T>::infinity();
    }
    const bool in_runs = sums_in_runs(p);
    KeySource<T, S> source(p, rows.entry, rows.kv_head, scratch.k_block, scratch.v_block, scratch.key_hidden);
    for (int64_t block = first_key / kBlockKeys * kBlockKeys; block < last_key; block += kBlockKeys) {
        for (int64_t n = 0; several_spans && block % kSpanKeys == 0 && n < panels; ++n) {
            if (lanes[n].begin_min >= block || lanes[n].end_max <= block - kSpanKeys) continue;
            end_span<T>(p.head_dim_v, scratch.maximum + n * kPanel<T>, scratch.total_of(n, sum_size), scratch.sums + n * sum_size);
        }
        const int64_t block_begin = most(block, kPairs ? first_key / 2 * 2 : first_key), block_end = least(block + kBlockKeys, last_key);
        source.bring(block_begin, block_end - block_begin);
        const int64_t next_count = least(kBlockKeys, last_key - block_end);
        int64_t seeing = 0;
        for (int64_t n = 0; n < panels; ++n) seeing += lanes[n].begin_min < block_end && lanes[n].end_max > block_begin ? 1 : 0;
        [[maybe_unused]] T *const k_panels = seeing >= kPanelsToPack ? scratch.k_panels : nullptr;
        [[maybe_unused]] bool keys_marked = false;
        [[maybe_unused]] T *const v_pairs = scratch.v_block + kBlockKeys / 2 * p.head_dim_v;
        if constexpr (!kPairs) {
            if (k_panels != nullptr) {
                pack_panels<T>(source.key(block_begin), kDtype<T>, 0, source.key_step(), 1, block_end - block_begin, p.head_dim, k_panels,
                               kTileRows);
            }
        } else {
#if ATTILE_CPU_BRAIN_PAIRS
            const int64_t count = block_end - block_begin;
            keys_marked = pair_keys(source.key(block_begin), source.key_step(), count, p.head_dim, scratch.k_pairs);
            pair_values(source.value(block_begin), source.value_step(), count, p.head_dim_v, v_pairs, scratch.v_marks);
#endif
        }
        Coming keys_coming = source.keys_coming(block_end, next_count, panels);
        Coming values_coming = source.values_coming(block_end, next_count, panels);
        for (int64_t n = 0; n < panels; ++n) {
            int64_t from = most(block_begin, lanes[n].begin_min), to = least(block_end, lanes[n].end_max);
            if (from >= to) continue;
            [[maybe_unused]] bool keeps_scores = false, keeps_values = false;
            if constexpr (kPairs) {
#if ATTILE_CPU_BRAIN_PAIRS
                // Of values, what the panel sees alone decides, whatever the task's other panels see: products with weights may be flushed.
                keeps_scores = keys_marked || scratch.q_marks[n] != 0;
                keeps_values = any_mark(scratch.v_marks, from - block_begin, to - block_begin);
#endif
                from = from / 2 * 2;
                to = least(block_end, round_up(to, 2));
            }
            const PanelBlock<T> x = {p,
                                     rows.entry,
                                     lanes[n],
                                     from,
                                     to - from,
                                     scratch.queries + n * query_size,
                                     scratch.sums + n * sum_size,
                                     scratch.state(n),
                                     searching,
                                     in_runs};
            const bool narrow = lanes[n].count <= kLanes<T>;
            if constexpr (!kPairs) {
                (narrow ? panel_block<T, 1> : panel_block<T, 2>)(scratch, source, k_panels, block_begin, x, keys_coming, values_coming);
            } else {
#if ATTILE_CPU_BRAIN_PAIRS
                const auto fn = keeps_scores && keeps_values ? panel_block_of_pairs<2, KeptBrainPair, KeptBrainPair>
                                : keeps_scores               ? panel_block_of_pairs<2, KeptBrainPair, BrainPair>
                                : keeps_values               ? panel_block_of_pairs<2, BrainPair, KeptBrainPair>
                                : narrow                     ? panel_block_of_pairs<1, BrainPair, BrainPair>
                                                             : panel_block_of_pairs<2, BrainPair, BrainPair>;
                fn(scratch, source, v_pairs, block_begin, x, keys_coming, values_coming);
#endif
            }
        }
    }
    for (int64_t n = 0; several_spans && n < panels; ++n) {
        const PanelTotal<T> total = scratch.total_of(n, sum_size);
        end_span<T>(p.head_dim_v, scratch.maximum + n * kPanel<T>, total, scratch.sums + n * sum_size);
        add_rounded_off<T>(sum_size, total, scratch.sums + n * sum_size);
    }
    if (!searching && !all_finite(scratch.sums, kPanel<T>, panels * p.head_dim_v, kPanel<T>)) return false;
    for (int64_t n = 0; n < panels; ++n) {
        write_panel<T>(p, rows, lanes[n], scratch.state(n), scratch.offset, scratch.sums + n * sum_size);
    }
    return true;
}

template <class T>
void forward(const attile_attention_problem &p, const AttentionRows &rows, char *memory) {
    if (!forward_once<T, T>(p, rows, false, memory)) forward_once<T, T>(p, rows, true, memory);
}

#if ATTILE_CPU_BRAIN_PAIRS
inline void forward_of_pairs(const attile_attention_problem &p, const AttentionRows &rows, char *memory) {
    if (!forward_once<float, Brain>(p, rows, false, memory)) forward_once<float, Brain>(p, rows, true, memory);
}
#endif
// NULL where sums are no floats, or a processor of the target cannot have the instruction.
template <class T>
inline constexpr auto kForwardOfPairs = static_cast<void (*)(const attile_attention_problem &, const AttentionRows &, char *)>(nullptr);
#if ATTILE_CPU_BRAIN_PAIRS
template <>
inline constexpr auto kForwardOfPairs<float> = &forward_of_pairs;
#endif

template <class T>
const AttentionKernels<T> &kernels() {
    static constexpr AttentionKernels<T> kTable = {
        kPanel<T>,       kTileRows,       &forward_scratch_bytes<T>, &forward<T>,       &decode_scratch_bytes<T>,
        &decode_part<T>, &decode_fold<T>, &decode_finish<T>,         kForwardOfPairs<T>};
    return kTable;
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
