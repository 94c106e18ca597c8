// SPDX-License-Identifier: Apache-2.0
// Attention backward in two passes: dq with query rows as the lanes of panels, dk and dv with keys.
#if defined(ATTILE_CPU_BACKWARD_TWO_PASSES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_BACKWARD_TWO_PASSES_INL_H
#undef ATTILE_CPU_BACKWARD_TWO_PASSES_INL_H
#else
#define ATTILE_CPU_BACKWARD_TWO_PASSES_INL_H
#endif

#include "attention/keys-inl.h"
#include "attention/lanes-inl.h"
#include "attention/mask-inl.h"
#include "attention_backward/attention_backward.h"
#include "attention_backward/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

template <class T>
HWY_INLINE void fill(T *x, int64_t count, T value) {
    for (int64_t i = 0; i < count; ++i) x[i] = value;
}

// Scratch of the pass over queries.
template <class T>
struct QueryScratch {
    T *queries, *douts, *outs, *sums, *lse, *delta, *ones, *scores, *tile, *gradients, *slopes, *k_block, *v_block;
    int64_t *lanes, *offset;
    uint8_t *key_hidden;

    QueryScratch(Cutter &cutter, const attile_attention_problem &p) {
        queries = cutter.cut<T>(kBackwardPanels, p.head_dim, kPanel<T>);
        douts = cutter.cut<T>(kBackwardPanels, p.head_dim_v, kPanel<T>);
        outs = cutter.cut<T>(p.head_dim_v, kPanel<T>);
        sums = cutter.cut<T>(kBackwardPanels, p.head_dim, kPanel<T>);
        lse = cutter.cut<T>(kBackwardPanels, kPanel<T>);
        delta = cutter.cut<T>(kBackwardPanels, kPanel<T>);
        ones = cutter.cut<T>(kPanel<T>);
        scores = cutter.cut<T>(kBlockKeys, kPanel<T>);
        tile = cutter.cut<T>(kBlockKeys, kPanel<T>);
        gradients = cutter.cut<T>(kBlockKeys, kPanel<T>);
        slopes = cutter.cut<T>(kBlockKeys, kPanel<T>);
        k_block = cutter.cut<T>(kBlockKeys, p.head_dim);
        v_block = cutter.cut<T>(kBlockKeys, p.head_dim_v);
        lanes = cutter.cut<int64_t>(kBackwardPanels, kLaneArrays, kPanel<T>);
        offset = cutter.cut<int64_t>(kPanel<T>);
        key_hidden = cutter.cut<uint8_t>(kBlockKeys);
    }
};

// lse and delta of a panel's rows.
template <class T>
void load_row_numbers(const BackwardProblem &problem, const AttentionRows &rows, const Lanes &lanes, const T *douts,
                      const QueryScratch<T> &scratch, T *lse, T *delta) {
    const attile_attention_problem &p = *problem.forward;
    const Tag<T> d;
    load_lanes<T>(p.o, rows.entry, lanes, p.head_dim_v, scratch.offset, scratch.outs);
    for (int64_t w = 0; w < kPanel<T>; w += kLanes<T>) {
        Vec<T> sum = hn::Zero(d);
        for (int64_t c = 0; c < p.head_dim_v; ++c) {
            sum = hn::MulAdd(hn::Load(d, douts + c * kPanel<T> + w), hn::Load(d, scratch.outs + c * kPanel<T> + w), sum);
        }
        hn::Store(sum, d, delta + w);
    }
    for (int64_t w = 0; w < kPanel<T>; ++w) {
        const int64_t at = offset_of(p.lse, rows.entry.b, lanes.head[w], rows.entry.q_start + lanes.row[w]);
        lse[w] = load_element<T>(p.lse.data, p.lse.dtype, at);
        delta[w] -= lse_gradient<T>(problem, rows.entry, lanes.head[w], lanes.row[w]);
    }
}

// searching: scores may be -inf by themselves, so each block is searched for keys that are not finite. Returns false, having written
// nothing, if some sum is not finite.
template <class T>
bool backward_queries_once(const BackwardProblem &problem, const AttentionRows &rows, bool searching, char *memory) {
    const attile_attention_problem &p = *problem.forward;
    Cutter cutter(memory);
    const QueryScratch<T> scratch(cutter, p);
    const Tag<T> d;
    const int64_t panels = ceil_div(rows.end - rows.begin, kPanel<T>);
    const int64_t query_size = p.head_dim * kPanel<T>, dout_size = p.head_dim_v * kPanel<T>;
    Lanes lanes[kBackwardPanels];
    int64_t first_key = std::numeric_limits<int64_t>::max(), last_key = 0;
    fill<T>(scratch.sums, panels * query_size, 0);
    fill<T>(scratch.ones, kPanel<T>, 1);
    for (int64_t n = 0; n < panels; ++n) {
        lanes[n] = make_lanes<T>(p, rows, rows.begin + n * kPanel<T>, scratch.lanes + n * kLaneArrays * kPanel<T>);
        first_key = least(first_key, lanes[n].begin_min);
        last_key = most(last_key, lanes[n].end_max);
        load_lanes<T>(p.q, rows.entry, lanes[n], p.head_dim, scratch.offset, scratch.queries + n * query_size);
        load_lanes<T>(problem.dout, rows.entry, lanes[n], p.head_dim_v, scratch.offset, scratch.douts + n * dout_size);
        load_row_numbers<T>(problem, rows, lanes[n], scratch.douts + n * dout_size, scratch, scratch.lse + n * kPanel<T>,
                            scratch.delta + n * kPanel<T>);
    }
    KeySource<T> source(p, rows.entry, rows.kv_head, scratch.k_block, scratch.v_block, scratch.key_hidden);
    const SubnormalResults flushed(p);
    for (int64_t block = first_key / kBlockKeys * kBlockKeys; block < last_key; block += kBlockKeys) {
        const int64_t block_begin = most(block, first_key), block_end = least(block + kBlockKeys, last_key);
        source.bring(block_begin, block_end - block_begin);
        for (int64_t n = 0; n < panels; ++n) {
            const int64_t first = most(block_begin, lanes[n].begin_min), last = least(block_end, lanes[n].end_max);
            for_each_shown_run(p, rows.entry, lanes[n], first, last, [&](int64_t from, int64_t to) HWY_ATTR {
                const int64_t count = to - from;
                T *scores = scratch.scores, *gradients = scratch.gradients;
                compute_scores<T, 2>(p.head_dim, source.key(from), source.key_step(), count, scratch.queries + n * query_size,
                                     static_cast<T>(p.scale), scores);
                const bool hides = finish_scores<T>(p, rows.entry, lanes[n], from, count, source.hidden(from), {searching, T{1}, nullptr},
                                                    scores, scratch.slopes)
                                       .hides;
                compute_scores<T, 2>(p.head_dim_v, source.value(from), source.value_step(), count, scratch.douts + n * dout_size, T{1},
                                     gradients);
                for (int64_t w = 0; w < kPanel<T>; w += kLanes<T>) {
                    const Vec<T> lse = hn::Load(d, scratch.lse + n * kPanel<T> + w), delta = hn::Load(d, scratch.delta + n * kPanel<T> + w);
                    for (int64_t j = 0; j < count; ++j) {
                        T *gradient = gradients + j * kPanel<T> + w;
                        const Vec<T> score = hn::Load(d, scores + j * kPanel<T> + w);
                        Vec<T> ds = pair_gradient<T>(score, lse, hn::Load(d, gradient), delta).gradient;
                        if (p.softcap != 0) ds = through_cap<T>(score, ds, hn::Load(d, scratch.slopes + j * kPanel<T> + w));
                        hn::Store(ds, d, gradient);
                    }
                }
                T *sums = scratch.sums + n * query_size;
                if ((hides || searching) && !source.keys_finite()) {
                    add_seen_values<T>(p.head_dim, source.key(from), source.key_step(), count, gradients, scores, scratch.ones, sums);
                } else {
                    add_values<T, 2>(p.head_dim, source.key(from), source.key_step(), count, gradients, scratch.ones, sums);
                }
            });
        }
    }
    flushed.end();
    if (!searching && !all_finite(scratch.sums, kPanel<T>, panels * p.head_dim, kPanel<T>)) return false;
    fill<T>(scratch.ones, kPanel<T>, static_cast<T>(p.scale));
    for (int64_t n = 0; n < panels; ++n) {
        T *sums = scratch.sums + n * query_size;
        scale_lanes<T>(p.head_dim, scratch.ones, sums);
        store_lanes<T>(problem.dq, rows.entry, lanes[n], p.head_dim, scratch.offset, sums);
    }
    return true;
}

template <class T>
void backward_queries(const BackwardProblem &problem, const AttentionRows &rows, char *memory) {
    if (!backward_queries_once<T>(problem, rows, false, memory)) backward_queries_once<T>(problem, rows, true, memory);
}

// Scratch of the pass over keys.
template <class T>
struct KeyScratch {
    RowBlock<T> rows;
    PairTiles<T> tiles;
    KeyPanels<T> panels;
    int64_t *offset;
    T *ones, *dk, *dv;

    KeyScratch(Cutter &cutter, const attile_attention_problem &p) : rows(cutter, p), tiles(cutter), panels(cutter, p, kBackwardPanels) {
        offset = cutter.cut<int64_t>(kPanel<T>);
        ones = cutter.cut<T>(kPanel<T>);
        dk = cutter.cut<T>(kBackwardPanels, p.head_dim, kPanel<T>);
        dv = cutter.cut<T>(kBackwardPanels, p.head_dim_v, kPanel<T>);
    }
};

// searching: as above, for queries and gradients of outputs.
template <class T>
bool backward_keys_once(const BackwardProblem &problem, const AttentionEntry &entry, int64_t kv_head, int64_t begin, int64_t end,
                        bool searching, char *memory) {
    const attile_attention_problem &p = *problem.forward;
    Cutter cutter(memory);
    KeyScratch<T> scratch(cutter, p);
    RowBlock<T> &rows = scratch.rows;
    const PairTiles<T> &tiles = scratch.tiles;
    KeyPanels<T> &key_panels = scratch.panels;
    T *const ones = scratch.ones, *const dk = scratch.dk, *const dv = scratch.dv;
    key_panels.place(begin, end);
    const int64_t panels = key_panels.count();
    const int64_t key_size = p.head_dim * kPanel<T>, value_size = p.head_dim_v * kPanel<T>;
    fill<T>(dk, panels * key_size, 0);
    fill<T>(dv, panels * value_size, 0);
    fill<T>(ones, kPanel<T>, 1);
    key_panels.load(entry, kv_head, scratch.offset);
    const int64_t group = p.heads_q / p.heads_kv;
    const SubnormalResults flushed(p);
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
        for (int64_t first = 0; first < entry.len_q; first += kBlockKeys) {
            const int64_t count = least(kBlockKeys, entry.len_q - first);
            // The keys that rows see move up from row to row: a block is skipped if its ends show that it sees none of these keys.
            if (visible_keys(p, entry, first + count - 1).end <= begin || visible_keys(p, entry, first).begin >= end) continue;
            rows.load(problem, entry, h, first, count);
            for (int64_t n = 0; n < panels; ++n) {
                const KeyPanel<T> panel = key_panels.at(n);
                const KeyRange seen = rows_that_see<T>(p, entry, rows, panel);
                const int64_t from = seen.begin, to = seen.end;
                if (from == to) continue;
                const bool hides = pair_tiles<T>(p, entry, rows, from, to - from, panel, tiles);
                if (p.softcap != 0) {
                    const Tag<T> d;
                    for (int64_t i = 0; i < (to - from) * kPanel<T>; i += kLanes<T>) {
                        const Vec<T> gradient = hn::Load(d, tiles.gradients + i), slope = hn::Load(d, tiles.slopes + i);
                        hn::Store(through_cap<T>(hn::Load(d, tiles.marks + i), gradient, slope), d, tiles.slopes + i);
                    }
                }
                const T *gradients = p.softcap != 0 ? tiles.slopes : tiles.gradients;
                const T *queries = rows.queries + from * p.head_dim, *douts = rows.douts + from * p.head_dim_v;
                T *dk_panel = dk + n * key_size, *dv_panel = dv + n * value_size;
                if ((hides || searching) && !rows.is_finite(p)) {
                    add_seen_values<T>(p.head_dim_v, douts, p.head_dim_v, to - from, tiles.weights, tiles.marks, ones, dv_panel);
                    add_seen_values<T>(p.head_dim, queries, p.head_dim, to - from, gradients, tiles.marks, ones, dk_panel);
                } else {
                    add_values<T, 2>(p.head_dim_v, douts, p.head_dim_v, to - from, tiles.weights, ones, dv_panel);
                    add_values<T, 2>(p.head_dim, queries, p.head_dim, to - from, gradients, ones, dk_panel);
                }
            }
        }
    }
    flushed.end();
    const bool numbers =
        all_finite(dk, kPanel<T>, panels * p.head_dim, kPanel<T>) && all_finite(dv, kPanel<T>, panels * p.head_dim_v, kPanel<T>);
    if (!searching && !numbers) return false;
    for (int64_t n = 0; n < panels; ++n) {
        write_key_panel<T>(problem, entry, kv_head, key_panels.at(n), dk + n * key_size, dv + n * value_size, scratch.offset);
    }
    return true;
}

template <class T>
void backward_keys(const BackwardProblem &problem, const AttentionEntry &entry, int64_t kv_head, int64_t begin, int64_t end, char *memory) {
    if (backward_keys_once<T>(problem, entry, kv_head, begin, end, false, memory)) return;
    backward_keys_once<T>(problem, entry, kv_head, begin, end, true, memory);
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
