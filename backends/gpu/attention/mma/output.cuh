// SPDX-License-Identifier: Apache-2.0
// O and the log-sum-exp of a warp's 16 rows, from registers to memory: rows of the caller's, or partial results of a split.
#pragma once

#include "attention/mma/repair.cuh"
#include "attention/mma/softmax.cuh"
#include "attention/mma/work_tile.cuh"
#include "attention/output.h"
#include "mma/store_row.cuh"

namespace attile::gpu::mma {

// Is anything in this thread's part of a row of O infinite or NaN?
template <int kColumns>
__device__ __forceinline__ bool has_faults(const float *o, float factor) {
    float zero = 0;
#pragma unroll
    for (int j = 0; j < kColumns / 2; j += 4) zero = fmaf(o[j] * factor, 0.0f, fmaf(o[j + 1] * factor, 0.0f, zero));
    return zero != 0;
}

// A row of O in float32, whose columns lie in registers as the products of elements left them.
template <class Element, int kColumns, class Runs>
__device__ __forceinline__ void store_float(float *row, int columns, bool is_there, const float *o, float factor) {
    if constexpr (!Runs::kAreOne) {
#pragma unroll
        for (int i = 0; i < kColumns; i += Runs::kRun)
            store_row_f32<Runs::kRun>(row + Runs::at(i), columns - Runs::at(i), is_there, o + i / 2, factor);
    } else if constexpr (std::is_same_v<Element, float>)
        store_row_by_fours<kColumns>(row, columns, is_there, o, factor);
    else
        store_row_f32<kColumns>(row, columns, is_there, o, factor);
}

// A row of O, likewise. Returns whether all of it came out finite.
template <class Element, int kColumns, class Runs>
__device__ __forceinline__ bool store_elements(Element *row, int columns, bool is_there, const float *o, float factor) {
    if constexpr (Runs::kAreOne) {
        return store_row<Element, kColumns>(row, columns, is_there, o, factor);
    } else {
        bool is_finite = true;
#pragma unroll
        for (int i = 0; i < kColumns; i += Runs::kRun)
            is_finite = store_row<Element, Runs::kRun>(row + Runs::at(i), columns - Runs::at(i), is_there, o + i / 2, factor) && is_finite;
        return is_finite;
    }
}

// Stores rows `row` and row + 8 of the packed head, interleaved, since each is a chain of dependent instructions. total: their row_sums,
// relative to `reference` (in units of log2). rounding: what the rounding of the largest probability adds. kRepairs: rows whose O is not
// finite are computed again; else the caller does that. kModifies: scores may be far from 0 (numeric.h); times `unit` they are in units of
// log2. kSparse: there may be a mask of blocks or of a tree. kBytes: Q, K and V are e4m3. Runs, first_column: the warp's columns; the
// log-sum-exp is stored with column 0.
template <class Element, int kColumns, int kKeys, bool kModifies, bool kRepairs = true, bool kSparse = false, class Runs = AllColumns,
          bool kBytes = false>
__device__ __forceinline__ void store_rows(const AttentionParams &p, const AttentionWorkTile &work, int row, const float *o,
                                           const float (&reference)[2], const float (&total)[2],
                                           [[maybe_unused]] const float (&rounding)[2], [[maybe_unused]] float unit = 1,
                                           int first_column = 0) {
    const bool is_split = p.splits.divisor > 1, has_sinks = p.sinks.data != nullptr && !is_split;
    const bool is_there[2] = {row < work.rows, row + 8 < work.rows};
    const bool stores_lse = first_column == 0 && (lane_index() & 3) == 0;
    const int of_entry[2] = {query_row(p, row), query_row(p, row + 8)};
    const int head[2] = {query_head(p, work.head, row), query_head(p, work.head, row + 8)};
    const auto log_sum = [&](int r) {
        const float sum = add_log2_of(reference[r], total[r]);
        return total[r] != 0 ? kModifies ? from_score(sum, unit) : sum * static_cast<float>(kLn2) : -INFINITY;
    };
    float factor[2], lse[2];
    if (has_sinks) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const float sink = load_number(p.sinks, head[r] * p.sinks.stride[1]);
            const RowResult result(std::bool_constant<kModifies>(), total[r] != 0, reference[r], total[r], true, sink, unit);
            factor[r] = result.factor;
            lse[r] = result.lse;
        }
    } else {
#pragma unroll
        for (int r = 0; r < 2; ++r) factor[r] = total[r] != 0 ? reciprocal_fast(total[r]) : 0.0f;
    }
    // O was made with the largest probability rounded, so it is divided by a sum with the same rounding. The log-sum-exp is not.
    if constexpr (SoftmaxRange<Element>::kCorrects) {
#pragma unroll
        for (int r = 0; r < 2; ++r) factor[r] *= reciprocal_fast(1 + rounding[r] * factor[r]);
    }
    int64_t at[2];
    if (is_split) {
        const int64_t heads = static_cast<int64_t>(p.heads.divisor) * p.pack.divisor,
                      first = (work.split * p.part_batch + work.batch) * heads;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            at[r] = (first + head[r]) * p.len_q + of_entry[r];
            lse[r] = log_sum(r);
            float of_part = lse[r];
            if (kModifies && p.part_sum != nullptr && total[r] != 0) of_part = from_score(reference[r], unit);
            if (is_there[r] && stores_lse) {
                p.part_lse[at[r]] = of_part;
                if (kModifies && p.part_sum != nullptr) p.part_sum[at[r]] = total[r];
            }
            at[r] = at[r] * p.head_dim_v + first_column;
        }
    } else {
        const int64_t first = work.batch * p.o.stride[0] + work.first_q * p.o.stride[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) at[r] = first + head[r] * p.o.stride[1] + of_entry[r] * p.o.stride[2] + first_column;
    }
    bool is_faulty[2];
    if (std::is_same_v<Element, float> || is_split || p.o.storage == AttentionStorage::kF32) {
        float *const to = is_split ? p.part_o : static_cast<float *>(const_cast<void *>(p.o.data));
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            store_float<Element, kColumns, Runs>(to + at[r], p.head_dim_v - first_column, is_there[r], o + 2 * r, factor[r]);
            is_faulty[r] = kRepairs && has_faults<kColumns>(o + 2 * r, factor[r]);
        }
    } else if constexpr (!std::is_same_v<Element, float>) {
        Element *const to = static_cast<Element *>(const_cast<void *>(p.o.data));
#pragma unroll
        for (int r = 0; r < 2; ++r)
            is_faulty[r] =
                !store_elements<Element, kColumns, Runs>(to + at[r], p.head_dim_v - first_column, is_there[r], o + 2 * r, factor[r]);
    }
    if (!is_split && p.lse.data != nullptr) {
        const int64_t first = work.batch * p.lse.stride[0] + work.first_q * p.lse.stride[2];
        float *const to = static_cast<float *>(const_cast<void *>(p.lse.data));
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            if (!has_sinks) lse[r] = log_sum(r);
            if (is_there[r] && stores_lse) to[first + head[r] * p.lse.stride[1] + of_entry[r] * p.lse.stride[2]] = lse[r];
        }
    }
    if constexpr (kRepairs) {
        // Where the row_sum is NaN, NaN is the result, and there is nothing to repair.
#pragma unroll
        for (int r = 0; r < 2; ++r) is_faulty[r] = is_faulty[r] && is_there[r] && total[r] == total[r];
        if (!__any_sync(~0u, is_faulty[0] || is_faulty[1])) return;
#pragma unroll 1
        for (int r = 0; r < 2; ++r) {
            const float of_row = has_sinks ? (r == 0 ? lse[0] : lse[1]) : (r == 0 ? log_sum(0) : log_sum(1));
            unsigned faulty = __ballot_sync(~0u, (r == 0 ? is_faulty[0] : is_faulty[1]) && of_row == of_row);
            while (faulty != 0) {
                const int lane = __ffs(static_cast<int>(faulty)) - 1;
                faulty &= ~(0xfu << (lane & ~3));
                __syncwarp();  // What was stored above is stored before what is stored below.
                repair_row<kKeys, kModifies, kSparse, Runs, kBytes>(p, work, __shfl_sync(~0u, row + 8 * r, lane),
                                                                    __shfl_sync(~0u, of_row, lane), first_column);
            }
        }
    }
}

}  // namespace attile::gpu::mma
