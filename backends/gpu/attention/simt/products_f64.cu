// SPDX-License-Identifier: Apache-2.0
// What float64 attention does between its products, which GEMM's kernels make: softmax, the way of rows into dense copies and back, and the
// search for infinities. Bound by memory: 32 bytes and an exponential a score; 256 threads. Shared memory: two numbers a lane group.
#include "attention/simt/products_f64.h"

#include "attention/simt/wide_row.cuh"

namespace attile::gpu::simt {
namespace {

constexpr int kGroups = kWideThreads / kLanes;

// The lane group's number among all, and how many there are.
ATTILE_LANE_FN uint32_t wide_group() { return blockIdx.x * kGroups + static_cast<uint32_t>(lane_group_index()); }
ATTILE_LANE_FN uint32_t wide_groups() { return gridDim.x * kGroups; }

struct Larger {
    ATTILE_LANE_FN double operator()(double x, double y) const { return max_nan(x, y); }
};
struct Plus {
    ATTILE_LANE_FN double operator()(double x, double y) const { return x + y; }
};

// Of all that share a row; each thread gets the same.
template <bool kBlock, class Combine>
ATTILE_LANE_FN double fold_row(double mine, double (&shared)[kGroups], const Combine &combine) {
    mine = lane_fold(mine, combine);
    if constexpr (kBlock) {
        if (lane_index() == 0) shared[lane_group_index()] = mine;
        __syncthreads();
        mine = shared[0];
        for (int i = 1; i < kGroups; ++i) mine = combine(mine, shared[i]);
    }
    return mine;
}

template <bool kBlock>
__global__ void ATTILE_LAUNCH_BOUNDS(kWideThreads, 4) attention_f64_softmax(const ScoreParams params) {
    __shared__ double tops[kGroups], sums[kGroups];
    const AttentionParams &p = params.attention;
    const HeadSlice &slice = params.slice;
    const uint32_t index = kBlock ? blockIdx.x : wide_group();
    if (index >= slice.total) return;
    const SliceRow at(slice, index);
    const AttentionEntry entry = entry_of_thread(p, at.entry);
    const int head = at.head(p);
    const WideRow row(p, entry, head, at.row);
    const int thread = kBlock ? static_cast<int>(threadIdx.x) : lane_index(), threads = kBlock ? kWideThreads : kLanes;
    double *const scores = params.scores + index * slice.pitch - slice.first_key;

    double slope, top = lowest<double>(), sum = 0;
    for (int key = row.range().low + thread; key < row.range().high; key += threads) {
        double score = scores[key];
        if (row.modify(key, score, slope)) top = max_nan(top, score);
    }
    top = fold_row<kBlock>(top, tops, Larger());

    const int end = slice.first_key + slice.keys;
    for (int key = slice.first_key + thread; key < end; key += threads) {
        double score = scores[key], weight = 0;
        if (row.range().has(key) && row.modify(key, score, slope)) weight = exp(score - top);
        scores[key] = weight;
        sum += weight;
    }
    sum = fold_row<kBlock>(sum, sums, Plus());
    if (thread != 0) return;

    const bool saw_key = top != lowest<double>();
    const double sink = p.sinks.data ? load_as<double>(p.sinks, head * p.sinks.stride[1]) : lowest<double>();
    double divisor = sum, lse = saw_key ? top + log(sum) : lowest<double>();
    if (sink != lowest<double>()) {
        const double higher = max_nan(top, sink), share = saw_key ? exp(top - higher) : 0.0;
        const double total = sum * share + exp(sink - higher);
        divisor = saw_key ? total / share : 0.0;
        lse = higher + log(total);
    }
    params.divisors[index] = divisor;
    if (p.lse.data && at.row < entry.len_q)
        store_as<double>(p.lse, entry.batch * p.lse.stride[0] + head * p.lse.stride[1] + (entry.first_q + at.row) * p.lse.stride[2], lse);
}

// Calls take(number of the row, where the operand has it, is it there?) for each row of the slice, a lane group a row.
template <class Take>
ATTILE_LANE_FN void for_rows(const DenseParams &params, const Take &take) {
    const AttentionParams &p = params.attention;
    const AttentionOperand &x = params.operand;
    for (uint32_t index = wide_group(); index < params.slice.total; index += wide_groups()) {
        const SliceRow at(params.slice, index);
        const AttentionEntry entry = entry_of_thread(p, at.entry);
        int64_t outer = entry.batch, row = entry.first_q + at.row, head = at.head(p);
        bool is_there = at.row < entry.len_q;
        if (params.of_keys) {
            is_there = at.row < entry.len_k && locate_key(p, entry, at.row, outer, row);
            head = at.head_kv;
        }
        take(index, outer * x.stride[0] + head * x.stride[1] + row * x.stride[2], is_there);
    }
}

__global__ void ATTILE_LAUNCH_BOUNDS(kWideThreads, 4) attention_f64_gather(const DenseParams params) {
    for_rows(params, [&](uint32_t index, int64_t from, bool is_there) {
        double *const to = params.copy + static_cast<int64_t>(index) * params.cols;
        for (int col = lane_index(); col < params.cols; col += kLanes)
            to[col] = is_there ? load_as<double>(params.operand, from + col * params.operand.stride[3]) : 0.0;
    });
}

__global__ void ATTILE_LAUNCH_BOUNDS(kWideThreads, 4) attention_f64_scatter(const DenseParams params) {
    for_rows(params, [&](uint32_t index, int64_t to, bool is_there) {
        const double *const from = params.copy + static_cast<int64_t>(index) * params.cols;
        for (int col = lane_index(); is_there && col < params.cols; col += kLanes)
            store_as<double>(params.operand, to + col * params.operand.stride[3], from[col]);
    });
}

__global__ void ATTILE_LAUNCH_BOUNDS(kWideThreads, 4) attention_f64_divide(const DenseParams params) {
    for_rows(params, [&](uint32_t index, int64_t to, bool is_there) {
        const double *const from = params.copy != nullptr ? params.copy + static_cast<int64_t>(index) * params.cols : nullptr;
        const double divisor = params.divisors[index];
        for (int col = lane_index(); is_there && col < params.cols; col += kLanes) {
            const int64_t at = to + col * params.operand.stride[3];
            const double sum = from != nullptr ? from[col] : load_as<double>(params.operand, at);
            store_as<double>(params.operand, at, divisor != 0 ? sum / divisor : 0.0);  // 0: the row saw no key.
        }
    });
}

__global__ void ATTILE_LAUNCH_BOUNDS(kWideThreads, 4) attention_f64_look(const LookParams params) {
    const AttentionParams &p = params.attention;
    const uint32_t total = params.pairs * params.keys.divisor;
    for (uint32_t index = wide_group(); index < total; index += wide_groups()) {
        const uint32_t pair = quotient(index, params.keys);
        const int key = static_cast<int>(remainder(index, params.keys));
        const AttentionEntry entry = entry_of_thread(p, quotient(pair, params.heads_kv));
        int64_t outer, row;
        if (key >= entry.len_k || !locate_key(p, entry, key, outer, row)) continue;
        const int64_t at = outer * p.v.stride[0] + remainder(pair, params.heads_kv) * p.v.stride[1] + row * p.v.stride[2];
        double check = 0;  // Of finite numbers, 0.
        for (int col = lane_index(); col < p.head_dim_v; col += kLanes)
            check = fused_multiply_add(load_as<double>(p.v, at + col * p.v.stride[3]), 0.0, check);
        if (lane_any(check != 0) && lane_index() == 0) params.irregular[pair] = 1;  // Whoever finds out writes the same.
    }
}

}  // namespace

ScoreKernel attention_f64_softmax_kernel(bool block_a_row) {
    return block_a_row ? &attention_f64_softmax<true> : &attention_f64_softmax<false>;
}
DenseKernel attention_f64_gather_kernel() { return &attention_f64_gather; }
DenseKernel attention_f64_scatter_kernel() { return &attention_f64_scatter; }
DenseKernel attention_f64_divide_kernel() { return &attention_f64_divide; }
LookKernel attention_f64_look_kernel() { return &attention_f64_look; }

}  // namespace attile::gpu::simt
