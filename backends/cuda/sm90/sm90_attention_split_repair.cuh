// SPDX-License-Identifier: Apache-2.0
// Rows whose split scores are no numbers, or all below float32's range: their sums of probabilities again, by ordinary arithmetic. Slow,
// and only for rows that meet an infinity, a NaN or a number too large to be split.
#pragma once

#include <cfloat>

#include "sm90_ptx.cuh"
#include "tensor_attention_note.cuh"
#include "tile/attention_output.h"

namespace attile::sm90 {

struct SplitRepairRow {
    int of_entry, head, kv_head, first, end;  // Keys of the tile's that it sees.
    int64_t q_at, k_at;

    __device__ __forceinline__ SplitRepairRow(const simt::AttentionParams &p, const AttentionTileNote &note, int packed, int keys)
        : of_entry(simt::query_row(p, packed)),
          head(simt::query_head(p, note.head, packed)),
          kv_head(static_cast<int>(simt::quotient(static_cast<uint32_t>(head), p.group))) {
        const simt::KeyRange range(p, of_entry, note.shift, note.len_k);
        first = warp_uniform(max(range.low, note.first_tile * keys));
        end = warp_uniform(min(range.high, note.end_tile * keys));
        q_at = note.batch * p.q.stride[0] + head * p.q.stride[1] + static_cast<int64_t>(note.first_q + of_entry) * p.q.stride[2];
        k_at = note.batch * p.k.stride[0] + kv_head * p.k.stride[1] + note.first_k * p.k.stride[2];
    }
    // In units of log2. Q is scaled before it is multiplied, as elsewhere in float32: the product may pass its range where this does not.
    __device__ __forceinline__ float score(const simt::AttentionParams &p, int key) const {
        const float4 *const q = reinterpret_cast<const float4 *>(static_cast<const float *>(p.q.data) + q_at);
        const float4 *const k = reinterpret_cast<const float4 *>(static_cast<const float *>(p.k.data) + k_at + key * p.k.stride[2]);
        float sum = 0;
#pragma unroll 4
        for (int i = 0; 4 * i < p.head_dim; ++i) {
            const float4 a = __ldg(q + i), b = __ldg(k + i);
            sum = fmaf(a.x * p.scale_log2, b.x, sum);
            sum = fmaf(a.y * p.scale_log2, b.y, sum);
            sum = fmaf(a.z * p.scale_log2, b.z, sum);
            sum = fmaf(a.w * p.scale_log2, b.w, sum);
        }
        return sum;
    }
};

// By a whole warp: the largest score of row `packed`, in units of log2, and its sum of probabilities relative to that. Nothing but a mask
// changes scores, and there are no pages.
template <int kKeys>
__device__ __forceinline__ void sum_row(const simt::AttentionParams &p, const AttentionTileNote &note, int packed, float &reference,
                                        float &sum) {
    const SplitRepairRow row(p, note, packed, kKeys);
    float top = -INFINITY;
    sum = 0;
    for (int pass = 0; pass < 2; ++pass) {
        reference = top == -INFINITY ? -FLT_MAX : top;
        for (int key = row.first; key < row.end; key += simt::kLanes) {
            const int mine = key + simt::lane_index();
            const float score = mine < row.end ? row.score(p, mine) : -INFINITY;
            if (pass == 0)
                top = fmaxf(top, score);
            else
                sum += simt::exp2_fast(score - reference);
            if (__any_sync(~0u, !(score < INFINITY))) {  // Nothing makes a number of the sum any more.
                sum = NAN;
                return;
            }
        }
        if (pass == 0) top = simt::lane_fold(top, [](float x, float y) { return fmaxf(x, y); });
    }
    sum = simt::lane_fold(sum, [](float x, float y) { return x + y; });
}

// By a whole warp: O of that row, its split's share where there are such.
template <int kKeys, int kColumns>
__device__ __forceinline__ void weigh_row(const simt::AttentionParams &p, const AttentionTileNote &note, int packed, float reference,
                                          float sum) {
    const SplitRepairRow row(p, note, packed, kKeys);
    const bool is_split = p.splits.divisor > 1, has_sink = p.sinks.data != nullptr && !is_split;
    const float sink = has_sink ? simt::to_log2(simt::load_number(p.sinks, row.head * p.sinks.stride[1])) : 0.0f;
    const simt::RowResult result(sum != 0, reference, sum, has_sink, sink);
    const int64_t heads = static_cast<int64_t>(p.heads.divisor) * p.pack.divisor;
    float *const to =
        is_split ? p.part_o + (note.split * p.part_batch * heads * p.len_q + (note.batch * heads + row.head) * p.len_q + row.of_entry) *
                                  p.head_dim_v
                 : static_cast<float *>(const_cast<void *>(p.o.data)) + note.batch * p.o.stride[0] + row.head * p.o.stride[1] +
                       static_cast<int64_t>(note.first_q + row.of_entry) * p.o.stride[2];
    const int64_t v_at = note.batch * p.v.stride[0] + row.kv_head * p.v.stride[1] + note.first_k * p.v.stride[2];
    constexpr int kOfLane = kColumns / simt::kLanes;
    const int lane = simt::lane_index();
    const bool is_number = sum == sum;
    float value[kOfLane];
#pragma unroll
    for (float &x : value) x = is_number ? 0 : NAN;
    for (int first = row.first; is_number && first < row.end; first += simt::kLanes) {
        const float score = first + lane < row.end ? row.score(p, first + lane) : -INFINITY;
        const float weight = simt::exp2_fast(score - reference) * result.factor;
        const unsigned seen = __ballot_sync(~0u, score != -INFINITY);
        for (int i = 0; i < simt::kLanes; ++i) {
            const float of_key = __shfl_sync(~0u, weight, i);
            if ((seen >> i & 1) == 0) continue;
#pragma unroll
            for (int j = 0; j < kOfLane; ++j) {
                const int column = lane + j * simt::kLanes;
                if (column < p.head_dim_v)
                    value[j] = fmaf(of_key, simt::load_number(p.v, v_at + int64_t{first + i} * p.v.stride[2] + column), value[j]);
            }
        }
    }
#pragma unroll
    for (int j = 0; j < kOfLane; ++j)
        if (lane + j * simt::kLanes < p.head_dim_v) to[lane + j * simt::kLanes] = value[j];
}

}  // namespace attile::sm90
