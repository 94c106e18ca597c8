// SPDX-License-Identifier: Apache-2.0
// o = sum over splits of exp(lse_s - lse) o_s, lse = log sum exp(lse_s) (and the sink's share): the last step of attention whose keys were
// split over blocks. A block takes one row: 128 threads, a fixed order of summation, no shared memory beyond 2 KB of weights.
#include "kernel/attention_kernels.h"
#include "tile/attention_output.h"

namespace attile::simt {
namespace {

constexpr int kMostSplits = 256, kGroups = kAttentionCombineThreads / kLanes;

__global__ void ATTILE_LAUNCH_BOUNDS(kAttentionCombineThreads, 1) attention_combine(const AttentionParams p) {
    __shared__ float weight[kMostSplits];
    __shared__ float factor_of_all, sums[kGroups][kLanes];
    const int heads = static_cast<int>(p.heads.divisor * p.pack.divisor), splits = static_cast<int>(p.splits.divisor);
    const int64_t rows = p.part_batch * heads * p.len_q;
    for (int64_t part = blockIdx.x; part < rows; part += gridDim.x) {
        const int batch = static_cast<int>(part / (static_cast<int64_t>(heads) * p.len_q));
        const int head = static_cast<int>(part / p.len_q % heads), row = static_cast<int>(part % p.len_q);
        const AttentionEntry entry(p, batch);
        if (row >= entry.len_q) continue;  // The same for the whole block.
        if (threadIdx.x < kLanes) {
            const int lane = lane_index();
            float top = -INFINITY;
            for (int s = lane; s < splits; s += kLanes) top = max_nan(top, p.part_lse[s * rows + part]);
            top = lane_fold(top, [](float x, float y) { return max_nan(x, y); });
            float total = 0;
            for (int s = lane; s < splits; s += kLanes) {
                const float lse = p.part_lse[s * rows + part];
                // A split that saw nothing must not take part at all: its weight of zero tells.
                const float w = lse == -INFINITY ? 0.0f : expf(lse - top);
                weight[s] = w;
                total += w;
            }
            total = lane_fold(total, [](float x, float y) { return x + y; });
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
        // Splits are dealt out to the lane groups, so that few loads follow one another; sums over groups have a fixed order.
        const int64_t at = batch * p.o.stride[0] + head * p.o.stride[1] + (entry.first_q + row) * p.o.stride[2];
        const int lane = lane_index(), group = lane_group_index();
        for (int col = lane; col - lane < p.head_dim_v; col += kLanes) {
            float sum = 0;
#pragma unroll 8
            for (int s = group; s < splits; s += kGroups) {
                const float x = col < p.head_dim_v ? p.part_o[(s * rows + part) * p.head_dim_v + col] : 0.0f;
                if (weight[s] != 0) sum = fused_multiply_add(weight[s], x, sum);
            }
            sums[group][lane] = sum;
            __syncthreads();
            if (group == 0 && col < p.head_dim_v) {
                float total = 0;
                for (int g = 0; g < kGroups; ++g) total += sums[g][lane];
                store_number(p.o, at + col * p.o.stride[3], total * factor_of_all);
            }
            __syncthreads();
        }
    }
}

}  // namespace

const void *attention_combine_kernel() { return reinterpret_cast<const void *>(&attention_combine); }

}  // namespace attile::simt
