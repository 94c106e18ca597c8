// SPDX-License-Identifier: Apache-2.0
// o = sum over splits of exp(lse_s - lse) o_s, lse = log sum exp(lse_s) (and the sink's share): the last step of attention whose keys were
// split over blocks. A block of 128 threads takes one row, a thread four columns of some of the splits: groups of threads share the splits
// out, so that all of a row's loads are on their way at once, and the first of them before the weights are known. A fixed order of
// summation; 3 KB of shared memory. What binds it is the way to memory and back, three times a row, not its rate, and the fetching of its
// instructions: few, with 32-bit divisions, no loop over rows and one store of one column a thread, take a microsecond less than many.
#include "attention/output.h"
#include "attention/simt/kernels.h"
#include "early.h"
#include "rows/rows.h"

namespace attile::gpu::simt {
namespace {

constexpr int kMostSplits = 256, kAtOnce = 8;

// kVector: a row of partial results is whole vectors. kSums: sums come by themselves (AttentionParams::part_sum).
template <bool kVector, bool kSums>
__global__ void ATTILE_LAUNCH_BOUNDS(kAttentionCombineThreads, 1) attention_combine(const AttentionParams p) {
    __shared__ float weight[kMostSplits];
    __shared__ float top_of_all, total_of_all;
    __shared__ Quad sums[kAttentionCombineThreads];
    await_kernel_ahead();
    const uint32_t heads = p.heads.divisor * p.pack.divisor;
    const int splits = static_cast<int>(p.splits.divisor);
    const int thread = static_cast<int>(threadIdx.x), quads = (p.head_dim_v + 3) / 4, groups = kAttentionCombineThreads / quads;
    const int group = thread / quads, col = (thread - group * quads) * 4;
    const bool has_work = group < groups;
    const uint32_t part = p.first_part + blockIdx.x, of_head = part / static_cast<uint32_t>(p.len_q);
    const int row = static_cast<int>(part - of_head * static_cast<uint32_t>(p.len_q)), batch = static_cast<int>(of_head / heads);
    const int head = static_cast<int>(of_head - static_cast<uint32_t>(batch) * heads);

    Quad x[kAtOnce];
    const auto load = [&](int first) {
        const float *from = p.part_o + (first * p.part_rows + part) * p.head_dim_v + col;
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            if (has_work && first + i * groups < splits) {
                if (kVector) {
                    x[i] = load_vec<4>(from);
                } else {
#pragma unroll
                    for (int e = 0; e < 4; ++e) x[i][e] = col + e < p.head_dim_v ? from[e] : 0.0f;
                }
            }
            from += groups * p.part_rows * p.head_dim_v;
        }
    };
    const AttentionEntry entry(p, batch);
    if (row >= entry.len_q) return;  // The same for the whole block. No part of such a row was written.
    load(group);
    if (thread < kLanes) {
        float top = -INFINITY;
#pragma unroll 1
        for (int s = thread; s < splits; s += kLanes) {
            weight[s] = p.part_lse[s * p.part_rows + part];
            top = max_nan(top, weight[s]);
        }
        top = lane_fold(top, [](float a, float b) { return max_nan(a, b); });
        float total = 0;
#pragma unroll 1
        for (int s = thread; s < splits; s += kLanes) {
            // A split that saw nothing must not take part at all: its weight of zero tells.
            float w = weight[s] == -INFINITY ? 0.0f : expf(weight[s] - top);
            if (kSums && w != 0) w *= p.part_sum[s * p.part_rows + part];
            weight[s] = w;
            total += w;
        }
        total = lane_fold(total, [](float a, float b) { return a + b; });
        if (thread == 0) {
            top_of_all = top;
            total_of_all = total;
        }
    }
    __syncthreads();
    const bool has_sink = p.sinks.data != nullptr;
    const RowResult result =
        RowResult::of_parts(top_of_all, total_of_all, has_sink, has_sink ? load_number(p.sinks, head * p.sinks.stride[1]) : 0.0f);
    if (thread == 0 && p.lse.data)
        store_number(p.lse, batch * p.lse.stride[0] + head * p.lse.stride[1] + (entry.first_q + row) * p.lse.stride[2], result.lse);
    Quad sum = {};
#pragma unroll 1
    for (int first = group;; load(first)) {
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const int split = first + i * groups;
            if (!has_work || split >= splits || weight[split] == 0) continue;
#pragma unroll
            for (int e = 0; e < 4; ++e) sum[e] = fused_multiply_add(weight[split], x[i][e], sum[e]);
        }
        first += kAtOnce * groups;
        if (first >= splits) break;
    }
    sums[thread] = sum;
    __syncthreads();
    // A column a thread: one store is fewer instructions than four, and they have to be fetched.
    const int64_t at = batch * p.o.stride[0] + head * p.o.stride[1] + (entry.first_q + row) * p.o.stride[2];
#pragma unroll 1
    for (int c = thread; c < p.head_dim_v; c += kAttentionCombineThreads) {
        float total = 0;
#pragma unroll 1
        for (int g = 0; g < groups; ++g) total += sums[g * quads + c / 4][c % 4];
        store_number(p.o, at + c * p.o.stride[3], total * result.factor);
    }
}

}  // namespace

const void *attention_combine_kernel(int64_t head_dim_v, bool has_sums) {
    if (has_sums)
        return head_dim_v % 4 == 0 ? reinterpret_cast<const void *>(&attention_combine<true, true>)
                                   : reinterpret_cast<const void *>(&attention_combine<false, true>);
    return head_dim_v % 4 == 0 ? reinterpret_cast<const void *>(&attention_combine<true, false>)
                               : reinterpret_cast<const void *>(&attention_combine<false, false>);
}

}  // namespace attile::gpu::simt
