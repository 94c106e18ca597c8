// SPDX-License-Identifier: Apache-2.0
// o = sum over splits of exp(lse_s - lse) o_s, lse = log sum exp(lse_s) (and the sink's share): the last step of attention whose keys were
// split over blocks. A block of 128 threads takes one row, a thread four columns of some of the splits: groups of threads share the splits
// out, so that all of a row's loads are on their way at once, and the first of them before the weights are known. A fixed order of
// summation; 3 KB of shared memory. What binds it is the way to memory and back, three times a row, not its rate.
#include "kernel/attention_kernels.h"
#include "kernel/rows.h"
#include "tile/attention_output.h"

namespace attile::simt {
namespace {

constexpr int kMostSplits = 256, kAtOnce = 8;

__global__ void ATTILE_LAUNCH_BOUNDS(kAttentionCombineThreads, 1) attention_combine(const AttentionParams p) {
    __shared__ float weight[kMostSplits];
    __shared__ float factor_of_all;
    __shared__ Quad sums[kAttentionCombineThreads];
    const int heads = static_cast<int>(p.heads.divisor * p.pack.divisor), splits = static_cast<int>(p.splits.divisor);
    const int64_t rows = p.part_batch * heads * p.len_q;
    const int thread = static_cast<int>(threadIdx.x), quads = (p.head_dim_v + 3) / 4, groups = kAttentionCombineThreads / quads;
    const int group = thread / quads, col = (thread - group * quads) * 4;
    const bool is_vector = p.head_dim_v % 4 == 0, has_work = group < groups;
    for (int64_t part = blockIdx.x; part < rows; part += gridDim.x) {
        const Division of_head = divide(part, p.len_q), of_batch = divide(of_head.quotient, heads);
        const int batch = static_cast<int>(of_batch.quotient), head = static_cast<int>(of_batch.remainder);
        const int row = static_cast<int>(of_head.remainder);
        const AttentionEntry entry(p, batch);
        if (row >= entry.len_q) continue;  // The same for the whole block.

        Quad x[kAtOnce];
        const auto load = [&](int first) {
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) {
                const int split = first + i * groups;
                if (!has_work || split >= splits) continue;
                const float *const from = p.part_o + (split * rows + part) * p.head_dim_v + col;
                if (is_vector) {
                    x[i] = load_vec<4>(from);
                } else {
#pragma unroll
                    for (int e = 0; e < 4; ++e) x[i][e] = col + e < p.head_dim_v ? from[e] : 0.0f;
                }
            }
        };
        load(group);
        if (thread < kLanes) {
            const int lane = lane_index();
            float top = -INFINITY;
            for (int s = lane; s < splits; s += kLanes) {
                weight[s] = p.part_lse[s * rows + part];
                top = max_nan(top, weight[s]);
            }
            top = lane_fold(top, [](float a, float b) { return max_nan(a, b); });
            float total = 0;
            for (int s = lane; s < splits; s += kLanes) {
                // A split that saw nothing must not take part at all: its weight of zero tells.
                const float w = weight[s] == -INFINITY ? 0.0f : expf(weight[s] - top);
                weight[s] = w;
                total += w;
            }
            total = lane_fold(total, [](float a, float b) { return a + b; });
            if (lane == 0) {
                const bool has_sink = p.sinks.data != nullptr;
                const RowResult result(top != -INFINITY, to_log2(top), total, has_sink,
                                       has_sink ? to_log2(load_number(p.sinks, head * p.sinks.stride[1])) : 0.0f);
                factor_of_all = result.factor;
                if (p.lse.data)
                    store_number(p.lse, batch * p.lse.stride[0] + head * p.lse.stride[1] + (entry.first_q + row) * p.lse.stride[2],
                                 result.lse);
            }
        }
        __syncthreads();
        Quad sum = {};
        for (int first = group; first < splits; first += kAtOnce * groups) {
            if (first != group) load(first);
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) {
                const int split = first + i * groups;
                if (!has_work || split >= splits || weight[split] == 0) continue;
#pragma unroll
                for (int e = 0; e < 4; ++e) sum[e] = fused_multiply_add(weight[split], x[i][e], sum[e]);
            }
        }
        sums[thread] = sum;
        __syncthreads();
        if (group == 0) {
            for (int g = 1; g < groups; ++g) {
                const Quad other = sums[g * quads + thread];
#pragma unroll
                for (int e = 0; e < 4; ++e) sum[e] += other[e];
            }
            const int64_t at = batch * p.o.stride[0] + head * p.o.stride[1] + (entry.first_q + row) * p.o.stride[2];
#pragma unroll
            for (int e = 0; e < 4; ++e)
                if (col + e < p.head_dim_v) store_number(p.o, at + (col + e) * p.o.stride[3], sum[e] * factor_of_all);
        }
        __syncthreads();
    }
}

}  // namespace

const void *attention_combine_kernel() { return reinterpret_cast<const void *>(&attention_combine); }

}  // namespace attile::simt
