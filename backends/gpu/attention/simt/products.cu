// SPDX-License-Identifier: Apache-2.0
// What attention composed of products does between them, which GEMM's kernels make: softmax, the way of rows into dense copies and back,
// and the search for infinities. Bound by memory: four numbers and an exponential a score; 256 threads. Shared memory: two numbers a lane
// group.
#include "attention/simt/products.h"

#include "attention/simt/wide_row.cuh"

namespace attile::gpu::simt {
namespace {

constexpr int kGroups = kWideThreads / kLanes;

// The lane group's number among all, and how many there are.
ATTILE_LANE_FN uint32_t wide_group() { return blockIdx.x * kGroups + static_cast<uint32_t>(lane_group_index()); }
ATTILE_LANE_FN uint32_t wide_groups() { return gridDim.x * kGroups; }

struct Larger {
    template <class T>
    ATTILE_LANE_FN T operator()(T x, T y) const {
        return max_nan(x, y);
    }
};
struct Plus {
    template <class T>
    ATTILE_LANE_FN T operator()(T x, T y) const {
        return x + y;
    }
};

// Of all that share a row; each thread gets the same.
template <bool kBlock, class T, class Combine>
ATTILE_LANE_FN T fold_row(T mine, T (&shared)[kGroups], const Combine &combine) {
    mine = lane_fold(mine, combine);
    if constexpr (kBlock) {
        if (lane_index() == 0) shared[lane_group_index()] = mine;
        __syncthreads();
        mine = shared[0];
        for (int i = 1; i < kGroups; ++i) mine = combine(mine, shared[i]);
    }
    return mine;
}

template <class T, bool kBlock, bool kSparse>
__global__ void ATTILE_LAUNCH_BOUNDS(kWideThreads, 4) attention_products_softmax(const ScoreParams params) {
    __shared__ T tops[kGroups], sums[kGroups];
    const AttentionParams &p = params.attention;
    const HeadSlice &slice = params.slice;
    const uint32_t index = kBlock ? blockIdx.x : wide_group();
    if (index >= slice.total) return;
    const SliceRow at(slice, index);
    const AttentionEntry entry = entry_of_thread(p, at.entry);
    const int head = at.head(p);
    const WideRow<T, kSparse> row(p, entry, head, at.row);
    const int thread = kBlock ? static_cast<int>(threadIdx.x) : lane_index(), threads = kBlock ? kWideThreads : kLanes;
    T *const scores = static_cast<T *>(params.scores) + index * slice.pitch - slice.first_key;

    T slope, top = lowest<T>(), sum = 0;
    for (int key = row.range().low + thread; key < row.range().high; key += threads) {
        T score = scores[key];
        if (row.modify(key, score, slope)) top = max_nan(top, score);
    }
    top = fold_row<kBlock>(top, tops, Larger());

    const int end = slice.first_key + slice.keys;
    for (int key = slice.first_key + thread; key < end; key += threads) {
        T score = scores[key], weight = 0;
        if (row.range().has(key) && row.modify(key, score, slope)) weight = exp(score - top);
        scores[key] = weight;
        sum += weight;
    }
    sum = fold_row<kBlock>(sum, sums, Plus());
    if (thread != 0) return;

    const bool saw_key = top != lowest<T>();
    const T sink = p.sinks.data ? load_as<T>(p.sinks, head * p.sinks.stride[1]) : lowest<T>();
    T divisor = sum, lse = saw_key ? top + log(sum) : lowest<T>();
    if (sink != lowest<T>()) {
        const T higher = max_nan(top, sink), share = saw_key ? exp(top - higher) : T(0);
        const T total = sum * share + exp(sink - higher);
        divisor = saw_key ? total / share : T(0);
        lse = higher + log(total);
    }
    static_cast<T *>(params.divisors)[index] = divisor;
    if (p.lse.data && at.row < entry.len_q)
        store_as<T>(p.lse, entry.batch * p.lse.stride[0] + head * p.lse.stride[1] + (entry.first_q + at.row) * p.lse.stride[2], lse);
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

template <class T>
__global__ void ATTILE_LAUNCH_BOUNDS(kWideThreads, 4) attention_products_gather(const DenseParams params) {
    for_rows(params, [&](uint32_t index, int64_t from, bool is_there) {
        T *const to = static_cast<T *>(params.copy) + static_cast<int64_t>(index) * params.cols;
        for (int col = lane_index(); col < params.cols; col += kLanes)
            to[col] = is_there ? load_as<T>(params.operand, from + col * params.operand.stride[3]) : T(0);
    });
}

template <class T>
__global__ void ATTILE_LAUNCH_BOUNDS(kWideThreads, 4) attention_products_scatter(const DenseParams params) {
    for_rows(params, [&](uint32_t index, int64_t to, bool is_there) {
        const T *const from = static_cast<const T *>(params.copy) + static_cast<int64_t>(index) * params.cols;
        for (int col = lane_index(); is_there && col < params.cols; col += kLanes)
            store_as<T>(params.operand, to + col * params.operand.stride[3], from[col]);
    });
}

template <class T>
__global__ void ATTILE_LAUNCH_BOUNDS(kWideThreads, 4) attention_products_divide(const DenseParams params) {
    for_rows(params, [&](uint32_t index, int64_t to, bool is_there) {
        const T *const copy = static_cast<const T *>(params.copy);
        const T *const from = copy != nullptr ? copy + static_cast<int64_t>(index) * params.cols : nullptr;
        const T divisor = static_cast<const T *>(params.divisors)[index];
        for (int col = lane_index(); is_there && col < params.cols; col += kLanes) {
            const int64_t at = to + col * params.operand.stride[3];
            const T sum = from != nullptr ? from[col] : load_as<T>(params.operand, at);
            store_as<T>(params.operand, at, divisor != 0 ? sum / divisor : T(0));  // 0: the row saw no key.
        }
    });
}

template <class T>
__global__ void ATTILE_LAUNCH_BOUNDS(kWideThreads, 4) attention_products_look(const LookParams params) {
    const AttentionParams &p = params.attention;
    const uint32_t total = params.pairs * params.keys.divisor;
    for (uint32_t index = wide_group(); index < total; index += wide_groups()) {
        const uint32_t pair = quotient(index, params.keys);
        const int key = static_cast<int>(remainder(index, params.keys));
        const AttentionEntry entry = entry_of_thread(p, quotient(pair, params.heads_kv));
        int64_t outer, row;
        if (key >= entry.len_k || !locate_key(p, entry, key, outer, row)) continue;
        const int64_t at = outer * p.v.stride[0] + remainder(pair, params.heads_kv) * p.v.stride[1] + row * p.v.stride[2];
        T check = 0;  // Of finite numbers, 0.
        for (int col = lane_index(); col < p.head_dim_v; col += kLanes)
            check = fused_multiply_add(load_as<T>(p.v, at + col * p.v.stride[3]), T(0), check);
        if (lane_any(check != 0) && lane_index() == 0) params.irregular[pair] = 1;  // Whoever finds out writes the same.
    }
}

template <class T>
ScoreKernel softmax_kernel(bool block_a_row, bool sparse) {
    if (sparse) return block_a_row ? &attention_products_softmax<T, true, true> : &attention_products_softmax<T, false, true>;
    return block_a_row ? &attention_products_softmax<T, true, false> : &attention_products_softmax<T, false, false>;
}

}  // namespace

ScoreKernel attention_products_softmax_kernel(bool is_f64, bool block_a_row, bool sparse) {
    return is_f64 ? softmax_kernel<double>(block_a_row, sparse) : softmax_kernel<float>(block_a_row, sparse);
}
DenseKernel attention_products_gather_kernel(bool is_f64) {
    return is_f64 ? &attention_products_gather<double> : &attention_products_gather<float>;
}
DenseKernel attention_products_scatter_kernel(bool is_f64) {
    return is_f64 ? &attention_products_scatter<double> : &attention_products_scatter<float>;
}
DenseKernel attention_products_divide_kernel(bool is_f64) {
    return is_f64 ? &attention_products_divide<double> : &attention_products_divide<float>;
}
LookKernel attention_products_look_kernel(bool is_f64) {
    return is_f64 ? &attention_products_look<double> : &attention_products_look<float>;
}

}  // namespace attile::gpu::simt
