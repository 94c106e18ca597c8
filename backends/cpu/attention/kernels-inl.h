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
#include "attention/panel-inl.h"
#include "attention/scratch-inl.h"
#include "attention/tile_block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

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
    if constexpr (std::is_same_v<T, float>) {
        if (is_narrow(p.o.dtype)) return store_narrow_lanes(p, rows.entry, lanes, sums);
    }
    store_lanes<T>(p.o, rows.entry, lanes, p.head_dim_v, offset, sums);
}

// A task's panels begin; returns the keys that some of their rows see.
template <class T, bool kPairs, bool kTiles>
KeyRange begin_panels(const attile_attention_problem &p, const AttentionRows &rows, const ForwardScratch<T> &scratch, int64_t panels,
                      int64_t query_size, int64_t sum_size, Lanes *lanes) {
    for (int64_t i = 0; i < panels * sum_size; ++i) scratch.sums[i] = 0;
    for (int64_t i = 0; i < panels * kPanel<T>; ++i) {
        scratch.maximum[i] = -std::numeric_limits<T>::infinity();
        scratch.weight_sum[i] = scratch.rounded_off[i] = 0;
    }
    int64_t first_key = std::numeric_limits<int64_t>::max(), last_key = 0;
    for (int64_t n = 0; n < panels; ++n) {
        lanes[n] = make_lanes<T>(p, rows, rows.begin + n * kPanel<T>, scratch.lanes + n * kLaneArrays * kPanel<T>);
        first_key = least(first_key, lanes[n].begin_min);
        last_key = most(last_key, lanes[n].end_max);
        load_lanes<T>(p.q, rows.entry, lanes[n], p.head_dim, scratch.offset, scratch.queries + n * query_size);
        if (p.q_scale.data != nullptr)
            scale_lanes<T>(p.q_scale, p.q_group, rows.entry, lanes[n], p.head_dim, scratch.offset, scratch.queries + n * query_size);
#if ATTILE_CPU_BRAIN_PAIRS
        if constexpr (kPairs) scratch.q_marks[n] = pair_queries(p.head_dim, scratch.queries + n * query_size) ? 1 : 0;
#if ATTILE_CPU_TILES
        if constexpr (kTiles) fill_queries(p.head_dim, scratch.queries + n * query_size);
#endif
#endif
    }
    return {first_key, last_key};
}

template <class T>
void begin_totals(const ForwardScratch<T> &scratch, int64_t panels, int64_t sum_size) {
    for (int64_t i = 0; i < panels * sum_size; ++i) scratch.total[i] = scratch.total_rounded_off[i] = 0;
    for (int64_t i = 0; i < panels * kPanel<T>; ++i) scratch.total_maximum[i] = -std::numeric_limits<T>::infinity();
}

// searching: scores may be -inf by themselves, so each block is searched for values that are not finite. Returns false, having written
// nothing, if some sum is not finite. S: what keys and values are read as, Brain for products of pairs.
template <class T, class S, bool kTiles = false>
bool forward_once(const attile_attention_problem &p, const AttentionRows &rows, bool searching, char *memory) {
    constexpr bool kPairs = !std::is_same_v<S, T>;
    using Scratch = ForwardScratch<T>;
    constexpr int64_t kKeys = Scratch::block_keys(kTiles);
    const int64_t panels = ceil_div(rows.end - rows.begin, kPanel<T>);
    Cutter cutter(memory);
    const Scratch scratch(cutter, p, panels, kTiles);
    const int64_t sum_rows = Scratch::sum_rows(p, kTiles);
    const int64_t query_size = Scratch::query_rows(p, kTiles) * kPanel<T>, sum_size = sum_rows * kPanel<T>;
    constexpr int64_t kMostPanels = 32;
    Lanes lanes[kMostPanels];
    const KeyRange keys = begin_panels<T, kPairs, kTiles>(p, rows, scratch, panels, query_size, sum_size, lanes);
    const int64_t first_key = keys.begin, last_key = keys.end;
    const bool several_spans = last_key > (first_key / kSpanKeys + 1) * kSpanKeys;
    if (several_spans) begin_totals<T>(scratch, panels, sum_size);
    const bool in_runs = sums_in_runs(p);
    KeySource<T, S> source(p, rows.entry, rows.kv_head, scratch.k_block, scratch.v_block, scratch.key_hidden);
    for (int64_t block = first_key / kKeys * kKeys; block < last_key; block += kKeys) {
        for (int64_t n = 0; several_spans && block % kSpanKeys == 0 && n < panels; ++n) {
            if (lanes[n].begin_min >= block || lanes[n].end_max <= block - kSpanKeys) continue;
            end_span<T>(p.head_dim_v, scratch.maximum + n * kPanel<T>, scratch.total_of(n, sum_size), scratch.sums + n * sum_size);
        }
        const int64_t block_begin = kTiles ? block : most(block, kPairs ? first_key / 2 * 2 : first_key);
        const int64_t block_end = least(block + kKeys, last_key);
        if (!some_panel_is_shown(p, rows.entry, lanes, panels, block_begin, block_end)) continue;
        const auto shown_runs = [&](int64_t n, auto take) {
            for_each_shown_run(p, rows.entry, lanes[n], most(block_begin, lanes[n].begin_min), least(block_end, lanes[n].end_max), take);
        };
        source.bring(block_begin, block_end - block_begin);
        const auto panel_part = [&](int64_t n, int64_t from, int64_t to) {
            return PanelBlock<T>{p,
                                 rows.entry,
                                 lanes[n],
                                 from,
                                 to - from,
                                 scratch.queries + n * query_size,
                                 scratch.sums + n * sum_size,
                                 scratch.state(n),
                                 searching,
                                 in_runs};
        };
        if constexpr (kTiles) {
#if ATTILE_CPU_TILES
            TileBlock tiles(scratch, source, p, block, block_end - block);
            for (int64_t n = 0; n < panels; ++n) {
                const Lanes &after = lanes[n + 1 < panels ? n + 1 : 0];
                const int64_t next_block = n + 1 < panels ? block : block + kKeys, next_from = most(next_block, after.begin_min);
                const TileBlock::Next next{&after, next_from, least(least(next_block + kKeys, last_key), after.end_max) - next_from};
                shown_runs(n, [&](int64_t from, int64_t to) {
                    const PanelBlock<T> x = panel_part(n, from / kTilePanel * kTilePanel, least(block_end, round_up(to, kTilePanel)));
                    if (lanes[n].count <= kLanes<T>) {
                        tiles.template take<1>(x, scratch.q_marks[n] != 0, next);
                    } else {
                        tiles.template take<2>(x, scratch.q_marks[n] != 0, next);
                    }
                });
            }
#endif
            continue;
        }
        const int64_t next_count = least(kKeys, last_key - block_end);
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
        const auto take_run = [&](int64_t n, int64_t from, int64_t to) {
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
            const PanelBlock<T> x = panel_part(n, from, to);
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
        };
        for (int64_t n = 0; n < panels; ++n) shown_runs(n, [&](int64_t from, int64_t to) { take_run(n, from, to); });
    }
    for (int64_t n = 0; several_spans && n < panels; ++n) {
        const PanelTotal<T> total = scratch.total_of(n, sum_size);
        end_span<T>(p.head_dim_v, scratch.maximum + n * kPanel<T>, total, scratch.sums + n * sum_size);
        add_rounded_off<T>(sum_size, total, scratch.sums + n * sum_size);
    }
    if (!searching && !all_finite(scratch.sums, kPanel<T>, panels * sum_rows, kPanel<T>)) return false;
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
#if ATTILE_CPU_TILES
inline void forward_of_tiles(const attile_attention_problem &p, const AttentionRows &rows, char *memory) {
    const TilesInUse tiles;
    if (!forward_once<float, Brain, true>(p, rows, false, memory)) forward_once<float, Brain, true>(p, rows, true, memory);
}
#endif
// NULL where sums are no floats, or a processor of the target cannot have the instruction.
template <class T>
inline constexpr auto kForwardOfTiles = static_cast<void (*)(const attile_attention_problem &, const AttentionRows &, char *)>(nullptr);
#if ATTILE_CPU_TILES
template <>
inline constexpr auto kForwardOfTiles<float> = &forward_of_tiles;
#endif
template <class T>
inline constexpr auto kForwardOfPairs = static_cast<void (*)(const attile_attention_problem &, const AttentionRows &, char *)>(nullptr);
#if ATTILE_CPU_BRAIN_PAIRS
template <>
inline constexpr auto kForwardOfPairs<float> = &forward_of_pairs;
#endif

template <class T>
const AttentionKernels<T> &kernels() {
    static constexpr AttentionKernels<T> kTable = {
        kPanel<T>,       kTileRows,       &forward_scratch_bytes<T>, &forward<T>,        &decode_scratch_bytes<T>,
        &decode_part<T>, &decode_fold<T>, &decode_finish<T>,         kForwardOfPairs<T>, kForwardOfTiles<T>};
    return kTable;
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
