// SPDX-License-Identifier: Apache-2.0
// The end of decoding with split keys: the block of a row block that is done last puts the splits together, where a kernel of its own would
// have to be launched.
//
// A word for each row block counts its blocks that are done, in the call's own workspace, where anything may have been left behind. So the
// count carries the call's number, which no other call has: whatever lacks it is not a count of this call, and is replaced by an empty one
// before a block adds itself. The last one leaves zero, so that a captured call may be replayed with the number that it has.
#pragma once

#include "attention/simt/decode_params.h"
#include "attention/simt/splits.h"

namespace attile::gpu::simt {

// By one thread of a block, early: the word counts this call's blocks from now on.
ATTILE_LANE_FN void open_decode_count(unsigned long long *count, unsigned long long call) {
    const unsigned long long found = atomicCAS(count, 0ull, call);
    if (found != 0 && found >> DecodeParams::kCountBits != call >> DecodeParams::kCountBits) atomicCAS(count, found, call);
}

// By the same thread, when the block's results are stored: is it the last of `blocks`?
ATTILE_LANE_FN bool is_last_arrival(unsigned long long *count, uint32_t blocks) {
    __threadfence();
    constexpr unsigned long long kCount = (1ull << DecodeParams::kCountBits) - 1;
    if ((atomicAdd(count, 1ull) & kCount) + 1 != blocks) return false;
    *count = 0;
    __threadfence();
    return true;
}

// Puts a row block's splits together. `shared` holds kDecodeMergeFloats<C>, which nobody reads any more.
template <class C>
inline constexpr int kDecodeMergeFloats = C::kRows *(kAttentionMostSplits + 1) + C::kThreads * 4 + 3;

template <class C>
ATTILE_LANE_FN void merge_decode_splits(const AttentionParams &p, const AttentionPlace &place, const AttentionEntry &entry, int first_row,
                                        int rows, float *shared) {
    constexpr int kRows = C::kRows, kAcross = C::kCols / 4, kQuads = kRows * kAcross, kWays = C::kThreads / kQuads;
    constexpr int kAtOnce = kWays == 1 ? 16 : kWays < 8 ? 32 / kWays : 4;  // So that 32 splits are one way to memory and back.
    static_assert(kWays * kQuads == C::kThreads, "each thread has a quad of some of the splits");
    Quad *const sums = reinterpret_cast<Quad *>(shared);
    float *const weight = shared + C::kThreads * 4, *const factor = weight + kRows * kAttentionMostSplits;
    const int splits = static_cast<int>(p.splits.divisor), lane = lane_index(), group = lane_group_index();
    // Of a split's results, the row's number.
    const auto part_of = [&](int r) {
        const int row = min(first_row + r, rows - 1), head = query_head(p, place.head, row);
        return (entry.batch * static_cast<int64_t>(p.heads.divisor * p.pack.divisor) + head) * p.len_q + query_row(p, row);
    };
    // What weights come from is asked for first: the rest takes its time.
    const int64_t part_weighed = part_of(group);
    const auto lse_of = [&](int s) { return load_fresh(p.part_lse + s * p.part_rows + part_weighed); };
    const float own = group < kRows && lane < splits ? lse_of(lane) : -INFINITY;

    const int thread = static_cast<int>(threadIdx.x), way = thread / kQuads, r = thread % kQuads / kAcross, col = thread % kAcross * 4;
    const bool has_work = first_row + r < rows && col < p.head_dim_v;
    const float *from = p.part_o + (way * p.part_rows + part_of(r)) * p.head_dim_v + col;
    Quad x[kAtOnce];
    const auto load = [&](int first) {
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            if (has_work && first + i * kWays < splits) x[i] = load_vec_fresh<4>(from);
            from += kWays * p.part_rows * p.head_dim_v;
        }
    };
    load(way);
    if (group < kRows) {
        const SplitWeights weights(weight + group * kAttentionMostSplits, splits, own, lse_of);
        const int packed_row = first_row + group;
        if (lane == 0 && packed_row < rows) {
            const int head = query_head(p, place.head, packed_row);
            const RowResult result = weights.result(p, head);
            factor[group] = result.factor;
            if (p.lse.data)
                store_number(
                    p.lse,
                    entry.batch * p.lse.stride[0] + head * p.lse.stride[1] + (entry.first_q + query_row(p, packed_row)) * p.lse.stride[2],
                    result.lse);
        }
    }
    __syncthreads();
    Quad sum = {};
#pragma unroll 1
    for (int first = way;; load(first)) {
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const int split = first + i * kWays;
            if (!has_work || split >= splits) continue;
            const float w = weight[r * kAttentionMostSplits + split];
            if (w == 0) continue;
#pragma unroll
            for (int e = 0; e < 4; ++e) sum[e] = fused_multiply_add(w, x[i][e], sum[e]);
        }
        first += kAtOnce * kWays;
        if (first >= splits) break;
    }
    sums[thread] = sum;
    __syncthreads();
#pragma unroll 1
    for (int f = thread; f < kRows * C::kCols; f += C::kThreads) {
        const int own_r = f / C::kCols, own_col = f % C::kCols, packed_row = first_row + own_r;
        if (packed_row >= rows) break;
        if (own_col >= p.head_dim_v) continue;
        float total = 0;
#pragma unroll
        for (int w = 0; w < kWays; ++w) total += sums[w * kQuads + f / 4][f % 4];
        const int head = query_head(p, place.head, packed_row);
        store_number(p.o,
                     entry.batch * p.o.stride[0] + head * p.o.stride[1] + (entry.first_q + query_row(p, packed_row)) * p.o.stride[2] +
                         own_col * p.o.stride[3],
                     total * factor[own_r]);
    }
}

}  // namespace attile::gpu::simt
