// SPDX-License-Identifier: Apache-2.0
// Scratch memory of a task of panels.
#if defined(ATTILE_CPU_ATTENTION_SCRATCH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_ATTENTION_SCRATCH_INL_H
#undef ATTILE_CPU_ATTENTION_SCRATCH_INL_H
#else
#define ATTILE_CPU_ATTENTION_SCRATCH_INL_H
#endif

#include "attention/attention.h"
#include "attention/keys-inl.h"
#include "attention/lanes-inl.h"
#include "attention/pairs-inl.h"
#include "attention/tiles-inl.h"

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
    T *k_tiles = nullptr, *v_tiles = nullptr;
    uint8_t *k_group_marks = nullptr, *v_group_marks = nullptr;
    T *total, *total_rounded_off, *total_maximum;  // where there are several spans of keys
    int64_t *lanes;                                // kLaneArrays a panel
    int64_t *offset;
    uint8_t *key_hidden;

    static constexpr int64_t block_keys(bool by_tiles) { return by_tiles ? kTileKeys : kBlockKeys; }
    // Of a panel's queries and sums. Pairs of queries take half as many as numbers, unless there are few.
    static int64_t query_rows(const attile_attention_problem &p, bool by_tiles) {
        return by_tiles ? Size(p.head_dim).rounded_up(kTileStep).value() : p.head_dim;
    }
    static int64_t sum_rows(const attile_attention_problem &p, bool by_tiles) {
        return by_tiles ? Size(p.head_dim_v).rounded_up(kTilePanel).value() : p.head_dim_v;
    }

    LaneState<T> state(int64_t panel) const {
        return {maximum + panel * kPanel<T>, weight_sum + panel * kPanel<T>, rounded_off + panel * kPanel<T>};
    }
    PanelTotal<T> total_of(int64_t panel, int64_t sum_size) const {
        return {total + panel * sum_size, total_rounded_off + panel * sum_size, total_maximum + panel * kPanel<T>};
    }

    // by_tiles: products go by AMX (attention/tiles-inl.h), and columns are filled up.
    ForwardScratch(Cutter &cutter, const attile_attention_problem &p, int64_t panels, bool by_tiles) {
        const int64_t keys = block_keys(by_tiles);
        queries = cutter.cut<T>(panels, query_rows(p, by_tiles), kPanel<T>);
        sums = cutter.cut<T>(panels, sum_rows(p, by_tiles), kPanel<T>);
        maximum = cutter.cut<T>(panels, kPanel<T>);
        weight_sum = cutter.cut<T>(panels, kPanel<T>);
        rounded_off = cutter.cut<T>(panels, kPanel<T>);
        correction = cutter.cut<T>(kPanel<T>);
        scores = cutter.cut<T>(keys, kPanel<T>);
        tile = cutter.cut<T>(keys, kPanel<T>);
        k_block = cutter.cut<T>(keys, p.head_dim);
        v_block = cutter.cut<T>(keys, p.head_dim_v);
        k_panels = kPackKeys && panels >= kPanelsToPack ? cutter.cut<T>(kBlockKeys, p.head_dim) : nullptr;
        lanes = cutter.cut<int64_t>(panels, kLaneArrays, kPanel<T>);
        offset = cutter.cut<int64_t>(kPanel<T>);
        key_hidden = cutter.cut<uint8_t>(keys);
        const int64_t totals = p.len_k > kSpanKeys ? panels : 0;
        total = cutter.cut<T>(totals, sum_rows(p, by_tiles), kPanel<T>);
        total_rounded_off = cutter.cut<T>(totals, sum_rows(p, by_tiles), kPanel<T>);
        total_maximum = cutter.cut<T>(totals, kPanel<T>);
#if ATTILE_CPU_BRAIN_PAIRS
        if (sizeof(T) == 4 && p.k.dtype == ATTILE_BF16) {
            k_pairs = cutter.cut<T>(ceil_div(keys, kTileRows), Size(kTileRows) * ceil_div(p.head_dim, 2) + kMarkFloats);
            v_marks = cutter.cut<uint8_t>(keys);
            q_marks = cutter.cut<uint8_t>(panels);
        }
#endif
        if (by_tiles) {
            k_tiles = cutter.cut<T>(kTileKeys / 2, query_rows(p, true));
            v_tiles = cutter.cut<T>(kTileKeys / 2, sum_rows(p, true));
            k_group_marks = cutter.cut<uint8_t>(kTileKeys / kTilePanel);
            v_group_marks = cutter.cut<uint8_t>(kTileKeys / kTilePanel);
        }
    }
};

template <class T>
int64_t forward_scratch_bytes(const attile_attention_problem &p, int64_t panels, bool by_tiles) {
    Cutter cutter(nullptr);
    static_cast<void>(ForwardScratch<T>(cutter, p, panels, by_tiles));
    return cutter.used();
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
