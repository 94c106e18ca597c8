// SPDX-License-Identifier: Apache-2.0
// o = sum over splits of exp(lse_s - lse) o_s, lse = log sum exp(lse_s) (and the sink's share): the last step of attention whose keys were
// split over blocks. Two kernels, each with a fixed order of summation.
// Few rows, as of decoding: a block of 128 threads takes one row, a thread four columns of some of the splits: groups of threads share the
// splits out, so that all of a row's loads are on their way at once, and the first of them before the weights are known. 3 KB of shared
// memory. What binds it is the way to memory and back, three times a row, not its rate, and the fetching of its instructions: few, with
// 32-bit divisions, no loop over rows and one store of one column a thread, take a microsecond less than many.
// Many rows: a thread takes four columns of a row through all splits, a block as many rows as it has threads for. No thread waits for
// another, and the rate of memory binds.
#include "attention/output.h"
#include "attention/simt/kernels.h"
#include "early.h"
#include "rows/rows.h"

namespace attile::gpu::simt {
namespace {

constexpr int kMostSplits = 256, kAtOnce = 8;

// Which row of the problem a row of partial results is of.
struct PartRow {
    int batch, head, row;
    ATTILE_LANE_FN PartRow(const AttentionParams &p, uint32_t part) {
        const uint32_t heads = p.heads.divisor * p.pack.divisor, of_head = part / static_cast<uint32_t>(p.len_q);
        row = static_cast<int>(part - of_head * static_cast<uint32_t>(p.len_q));
        batch = static_cast<int>(of_head / heads);
        head = static_cast<int>(of_head - static_cast<uint32_t>(batch) * heads);
    }
};

// Four columns of one split's part of a row.
template <bool kVector>
ATTILE_LANE_FN Quad load_part(const float *from, int col, int cols) {
    if constexpr (kVector) {
        return load_vec<4>(from);
    } else {
        Quad x;
#pragma unroll
        for (int e = 0; e < 4; ++e) x[e] = col + e < cols ? from[e] : 0.0f;
        return x;
    }
}

// exp(lse - top) of part row `at`, times its sum where sums come by themselves. A split that saw nothing must not take part at all: its
// weight of zero tells.
template <bool kSums>
ATTILE_LANE_FN float weight_of_part(const AttentionParams &p, float lse, float top, int64_t at) {
    const float weight = lse == -INFINITY ? 0.0f : expf(lse - top);
    return kSums && weight != 0 ? weight * p.part_sum[at] : weight;
}

ATTILE_LANE_FN RowResult result_of_parts(const AttentionParams &p, int head, float top, float total) {
    const bool has_sink = p.sinks.data != nullptr;
    return RowResult::of_parts(top, total, has_sink, has_sink ? load_number(p.sinks, head * p.sinks.stride[1]) : 0.0f);
}

// kVector: a row of partial results is whole vectors. kSums: sums come by themselves (AttentionParams::part_sum).
template <bool kVector, bool kSums>
__global__ void ATTILE_LAUNCH_BOUNDS(kAttentionCombineThreads, 1) attention_combine(const AttentionParams p) {
    __shared__ float weight[kMostSplits];
    __shared__ float top_of_all, total_of_all;
    __shared__ Quad sums[kAttentionCombineThreads];
    const int splits = static_cast<int>(p.splits.divisor);
    const int thread = static_cast<int>(threadIdx.x), quads = (p.head_dim_v + 3) / 4, groups = kAttentionCombineThreads / quads;
    const int group = thread / quads, col = (thread - group * quads) * 4;
    const bool has_work = group < groups;
    const uint32_t part = p.first_part + blockIdx.x;
    const auto [batch, head, row] = PartRow(p, part);
    await_kernel_ahead(p);

    Quad x[kAtOnce];
    const auto load = [&](int first) {
        const float *from = p.part_o + (first * p.part_rows + part) * p.head_dim_v + col;
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            if (has_work && first + i * groups < splits) x[i] = load_part<kVector>(from, col, p.head_dim_v);
            from += groups * p.part_rows * p.head_dim_v;
        }
    };
    const AttentionEntry entry(p, batch);
    if (row >= entry.len_q) return;  // The same for the whole block. No part of such a row was written.
    load(group);
    if (thread < kLanes) {
        float top = -INFINITY, lse[kMostSplits / kLanes];
#pragma unroll
        for (int i = 0; i < kMostSplits / kLanes; ++i)  // All are asked for before one is waited for.
            if (thread + i * kLanes < splits) lse[i] = p.part_lse[(thread + i * kLanes) * p.part_rows + part];
#pragma unroll
        for (int i = 0; i < kMostSplits / kLanes; ++i) {
            if (thread + i * kLanes >= splits) break;
            weight[thread + i * kLanes] = lse[i];
            top = max_nan(top, lse[i]);
        }
        top = lane_fold(top, [](float a, float b) { return max_nan(a, b); });
        float total = 0;
#pragma unroll 1
        for (int s = thread; s < splits; s += kLanes) {
            weight[s] = weight_of_part<kSums>(p, weight[s], top, s * p.part_rows + part);
            total += weight[s];
        }
        total = lane_fold(total, [](float a, float b) { return a + b; });
        if (thread == 0) {
            top_of_all = top;
            total_of_all = total;
        }
    }
    __syncthreads();
    const RowResult result = result_of_parts(p, head, top_of_all, total_of_all);
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

template <bool kVector, bool kSums>
__global__ void ATTILE_LAUNCH_BOUNDS(kAttentionCombineThreads, 1) attention_combine_rows(const AttentionParams p) {
    constexpr int kPartsAtOnce = 4;
    await_kernel_ahead(p);
    const int splits = static_cast<int>(p.splits.divisor), thread = static_cast<int>(threadIdx.x);
    const int quads = (p.head_dim_v + 3) / 4, rows = kAttentionCombineThreads / quads, own_row = thread / quads,
              col = (thread - own_row * quads) * 4;
    const uint32_t index = blockIdx.x * static_cast<uint32_t>(rows) + static_cast<uint32_t>(own_row), part = p.first_part + index;
    if (own_row >= rows || index >= p.part_rows) return;
    const auto [batch, head, row] = PartRow(p, part);
    const AttentionEntry entry = entry_of_thread(p, batch);
    if (row >= entry.len_q) return;  // No part of such a row was written.
    const float *const lse = p.part_lse + part;
    float top = -INFINITY;
    for (int s = 0; s < splits; ++s) top = max_nan(top, lse[s * p.part_rows]);
    float total = 0;
    Quad sum = {};
#pragma unroll 1
    for (int first = 0; first < splits; first += kPartsAtOnce) {
        Quad x[kPartsAtOnce];
        float weight[kPartsAtOnce];
#pragma unroll
        for (int i = 0; i < kPartsAtOnce; ++i) {
            const int64_t at = min(first + i, splits - 1) * p.part_rows + part;  // Beyond the last: the last again, without weight.
            weight[i] = p.part_lse[at];
            x[i] = load_part<kVector>(p.part_o + at * p.head_dim_v + col, col, p.head_dim_v);
        }
#pragma unroll
        for (int i = 0; i < kPartsAtOnce; ++i) {
            const int split = first + i;
            const float w = split < splits ? weight_of_part<kSums>(p, weight[i], top, split * p.part_rows + part) : 0.0f;
            if (w == 0) continue;
            total += w;
#pragma unroll
            for (int e = 0; e < 4; ++e) sum[e] = fused_multiply_add(w, x[i][e], sum[e]);
        }
    }
    const RowResult result = result_of_parts(p, head, top, total);
    if (col == 0 && p.lse.data)
        store_number(p.lse, batch * p.lse.stride[0] + head * p.lse.stride[1] + (entry.first_q + row) * p.lse.stride[2], result.lse);
    store_quad(p.o, batch * p.o.stride[0] + head * p.o.stride[1] + (entry.first_q + row) * p.o.stride[2], col, p.head_dim_v, sum,
               result.factor);
}

template <bool kVector, bool kSums>
const void *combine_kernel(bool many_rows) {
    return many_rows ? reinterpret_cast<const void *>(&attention_combine_rows<kVector, kSums>)
                     : reinterpret_cast<const void *>(&attention_combine<kVector, kSums>);
}

}  // namespace

const void *attention_combine_kernel(int64_t head_dim_v, bool has_sums, bool many_rows) {
    if (head_dim_v % 4 == 0) return has_sums ? combine_kernel<true, true>(many_rows) : combine_kernel<true, false>(many_rows);
    return has_sums ? combine_kernel<false, true>(many_rows) : combine_kernel<false, false>(many_rows);
}

}  // namespace attile::gpu::simt
