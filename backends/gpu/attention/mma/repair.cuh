// SPDX-License-Identifier: Apache-2.0
// Repairs rows whose row_sum is finite while their output is not. Some V is infinite or NaN then, and a product cannot skip the keys that a
// row does not see: a probability of zero times infinity is NaN. Such rows are computed again, one key after the other, and hidden keys are
// skipped. This is slow, and happens only to rows that meet such a V.
#pragma once

#include "attention/mma/work_tile.cuh"
#include "attention/output.h"
#include "eight_bits.h"
#include "mma/ptx.cuh"

namespace attile::gpu::mma {

// Which columns of a row a warp has, from its first one on: runs of kRun, each kStep after the one before.
template <int kColumns, int kStep>
struct ColumnRuns {
    static constexpr int kRun = kColumns;
    static constexpr bool kAreOne = kRun == kStep;
    static __device__ __forceinline__ int at(int i) { return kAreOne ? i : i / kRun * kStep + i % kRun; }
};
using AllColumns = ColumnRuns<32, 32>;

// Numbers of e4m3, with one scale for a head's.
__device__ __forceinline__ float load_byte(const AttentionOperand &x, int64_t at) {
    return to_compute(static_cast<const E4M3 *>(x.data)[at]);
}
__device__ __forceinline__ float scale_of_head(const AttentionScales &scale, int batch, int head) {
    return scale.data != nullptr ? scale.data[batch * scale.stride[0] + head * scale.stride[1]] : 1.0f;
}

// By a whole warp: its columns, from first_column on, of row `packed` of the work tile's packed head, relative to the row's log-sum-exp,
// over the work tile's key tiles. Loops and
// branches around a shuffle depend only on values that ptxas can see to be the same in all of the warp. Otherwise it would give up uniform
// registers in the whole kernel.
template <int kKeys, bool kModifies, bool kSparse, class Runs, bool kBytes>
__device__ __forceinline__ void repair_row(const AttentionParams &p, const AttentionWorkTile &work, int packed, float lse,
                                           int first_column) {
    const int lane = lane_index(), row = query_row(p, packed), head = query_head(p, work.head, packed);
    const int kv_head = static_cast<int>(quotient(static_cast<uint32_t>(head), p.group));
    const AttentionEntry entry(p, work.batch);
    const ScoreModifiers modifiers(p, entry, head, row);
    const KeyRange range(p, row, work.shift, work.first_key, work.len_k);
    const int first = max(range.low, work.first_tile * kKeys), end = min(range.high, work.end_tile * kKeys);
    const int64_t q_at = work.batch * p.q.stride[0] + head * p.q.stride[1] + (entry.first_q + row) * p.q.stride[2];
    const auto place = [&](const AttentionOperand &x, int key) {
        int64_t axis0 = work.batch, axis2 = entry.first_k + key;
        if (p.block_table != nullptr) {
            const int64_t run = quotient(static_cast<uint32_t>(key), p.page_size);
            axis0 = p.block_table[work.batch * p.block_table_stride[0] + run * p.block_table_stride[1]];
            axis2 = remainder(static_cast<uint32_t>(key), p.page_size);
        }
        return axis0 * x.stride[0] + kv_head * x.stride[1] + axis2 * x.stride[2];
    };
    const int first_key = warp_uniform(first), end_key = warp_uniform(end);
    for (int i = 0; first_column + Runs::at(i) < p.head_dim_v; i += kLanes) {
        const int col = first_column + Runs::at(i + lane);
        const bool has_col = col < p.head_dim_v;
        float sum = 0;
        for (int key = first_key; key < end_key; ++key) {
            if (p.modifiers && !__any_sync(~0u, modifiers.shows(key))) continue;
            if constexpr (kSparse) {  // Not asked elsewhere: the plain kernel's loop took a fifth longer beside this code.
                if (!sparse_mask_shows(p, entry, head, row, key)) continue;
            }
            const int64_t k_at = place(p.k, key);
            float score = 0;
            for (int j = 0; j < p.head_dim; j += kLanes) {
                if (j + lane >= p.head_dim) continue;
                if constexpr (kBytes)
                    score = fmaf(load_byte(p.q, q_at + j + lane), load_byte(p.k, k_at + j + lane), score);
                else
                    score = fmaf(load_number(p.q, q_at + j + lane), load_number(p.k, k_at + j + lane), score);
            }
            score = lane_fold(score, [](float x, float y) { return x + y; }) * p.scale_log2;
            if constexpr (kBytes) score *= scale_of_head(p.q_scale, work.batch, head) * scale_of_head(p.k_scale, work.batch, kv_head);
            if (p.modifiers) score = modifiers.apply(score, key);
            const float weight = exp2_fast(score - (kModifies ? to_score(lse) : to_log2(lse)));
            if (!has_col || score == -INFINITY) continue;
            if constexpr (kBytes)
                sum = fmaf(weight, load_byte(p.v, place(p.v, key) + col), sum);
            else
                sum = fmaf(weight, load_number(p.v, place(p.v, key) + col), sum);
        }
        if constexpr (kBytes) sum *= scale_of_head(p.v_scale, work.batch, kv_head);
        if (has_col && p.splits.divisor > 1) {
            const int64_t heads = static_cast<int64_t>(p.heads.divisor) * p.pack.divisor, part_rows = p.part_batch * heads * p.len_q;
            p.part_o[(work.split * part_rows + (work.batch * heads + head) * p.len_q + row) * p.head_dim_v + col] = sum;
        } else if (has_col) {
            store_number(p.o, work.batch * p.o.stride[0] + head * p.o.stride[1] + (entry.first_q + row) * p.o.stride[2] + col, sum);
        }
    }
}

}  // namespace attile::gpu::mma
