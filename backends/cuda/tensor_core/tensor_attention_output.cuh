// SPDX-License-Identifier: Apache-2.0
// O and the log-sum-exp of a warp's 16 rows, from registers to memory: rows of the caller's, or partial results of a split.
#pragma once

#include "tensor_attention_note.cuh"
#include "tensor_attention_repair.cuh"
#include "tensor_attention_softmax.cuh"
#include "tensor_store_row.cuh"
#include "tile/attention_output.h"

namespace attile::tensor_core {

// Of a row's share of O: is something no number, or infinite?
template <int kColumns>
__device__ __forceinline__ bool has_faults(const float *o, float factor) {
    float zero = 0;
#pragma unroll
    for (int j = 0; j < kColumns / 2; j += 4) zero = fmaf(o[j] * factor, 0.0f, fmaf(o[j + 1] * factor, 0.0f, zero));
    return zero != 0;
}

// A row of O in float32, whose columns lie in registers as the products of elements left them.
template <class Element, int kColumns>
__device__ __forceinline__ void store_float(float *row, int columns, bool is_there, const float *o, float factor) {
    if constexpr (std::is_same_v<Element, float>)
        store_row_by_fours<kColumns>(row, columns, is_there, o, factor);
    else
        store_row_f32<kColumns>(row, columns, is_there, o, factor);
}

// Rows `row` and row + 8 of the packed head; total: their sums of probabilities, relative to `reference` (units of log2); rounding: what
// the rounding of the largest of them adds.
template <class Element, int kColumns, int kKeys>
__device__ __forceinline__ void store_rows(const simt::AttentionParams &p, const AttentionTileNote &note, int row, const float *o,
                                           const float (&reference)[2], const float (&total)[2], const float (&rounding)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int packed = row + 8 * r;
        const bool is_there = packed<note.rows, is_split = p.splits.divisor> 1;
        const int of_entry = simt::query_row(p, packed), head = simt::query_head(p, note.head, packed);
        const bool has_sink = p.sinks.data != nullptr && !is_split;
        const float sink = has_sink ? simt::to_log2(simt::load_number(p.sinks, head * p.sinks.stride[1])) : 0.0f;
        const simt::RowResult result(total[r] != 0, reference[r], total[r], has_sink, sink);
        // O holds the largest probability rounded, and is divided by a sum that does too; not so the log-sum-exp.
        const float factor = result.factor / (1 + rounding[r] * result.factor);
        float *lse = nullptr;
        if (is_split) {
            const int64_t heads = static_cast<int64_t>(p.heads.divisor) * p.pack.divisor, part_rows = p.part_batch * heads * p.len_q;
            const int64_t at = note.split * part_rows + (note.batch * heads + head) * p.len_q + of_entry;
            store_float<Element, kColumns>(p.part_o + at * p.head_dim_v, p.head_dim_v, is_there, o + 2 * r, factor);
            lse = p.part_lse + at;
        } else {
            const int64_t of_all = static_cast<int64_t>(note.first_q) + of_entry;
            const int64_t at = note.batch * p.o.stride[0] + head * p.o.stride[1] + of_all * p.o.stride[2];
            void *const data = const_cast<void *>(p.o.data);
            if (std::is_same_v<Element, float> || p.o.storage == simt::AttentionStorage::kF32)
                store_float<Element, kColumns>(static_cast<float *>(data) + at, p.head_dim_v, is_there, o + 2 * r, factor);
            else if constexpr (!std::is_same_v<Element, float>)
                store_row<Element, kColumns>(static_cast<Element *>(data) + at, p.head_dim_v, is_there, o + 2 * r, factor);
            if (p.lse.data != nullptr)
                lse = static_cast<float *>(const_cast<void *>(p.lse.data)) + note.batch * p.lse.stride[0] + head * p.lse.stride[1] +
                      of_all * p.lse.stride[2];
        }
        if (lse != nullptr && is_there && (simt::lane_index() & 3) == 0) *lse = result.lse;
        unsigned faulty = __ballot_sync(~0u, is_there && result.lse == result.lse && has_faults<kColumns>(o + 2 * r, factor));
        while (faulty != 0) {
            const int lane = __ffs(static_cast<int>(faulty)) - 1;
            faulty &= ~(0xfu << (lane & ~3));
            __syncwarp();  // What was stored above is stored before what is stored below.
            repair_row<kKeys>(p, note, __shfl_sync(~0u, packed, lane), __shfl_sync(~0u, result.lse, lane));
        }
    }
}

}  // namespace attile::tensor_core
