// SPDX-License-Identifier: Apache-2.0
// Probabilities and gradients of scores between the products of gradients: four numbers and an exponential a score, bound by memory. 256
// threads, a row a block or lane group; no shared memory.
#include "attention_backward/simt/composed.h"

#include "attention/simt/products.h"
#include "attention/simt/wide_row.cuh"
#include "attention_backward/tiles.h"

namespace attile::gpu::simt {
namespace {

template <class T, bool kBlock, bool kSparse>
__global__ void ATTILE_LAUNCH_BOUNDS(kWideThreads, 4) attention_backward_composed(const GradientParams params) {
    const AttentionBackwardParams &b = params.backward;
    const AttentionParams &p = b.forward;
    const HeadSlice &slice = params.slice;
    const uint32_t index = kBlock ? blockIdx.x : blockIdx.x * (kWideThreads / kLanes) + static_cast<uint32_t>(lane_group_index());
    if (index >= slice.total) return;
    const SliceRow at(slice, index);
    const AttentionEntry entry = entry_of_thread(p, at.entry);
    const int head = at.head(p);
    const WideRow<T, kSparse> row(p, entry, head, at.row);
    const BackwardRow<T> numbers =
        static_cast<const BackwardRow<T> *>(b.rows)[(static_cast<int64_t>(at.entry) * p.heads.divisor + head) * b.rows_allotted + at.row];
    T *const scores = static_cast<T *>(params.scores) + index * slice.pitch - slice.first_key;
    T *const gradients = static_cast<T *>(params.gradients) + index * slice.pitch - slice.first_key;
    T *bias = nullptr;
    if (b.part_bias) {
        const int pair = at.entry * static_cast<int>(b.heads_kv.divisor) + at.head_kv - static_cast<int>(b.first_pair);
        const int tile = at.row / b.block_rows, unit = at.member * static_cast<int>(b.row_tiles.divisor) + tile;
        bias = static_cast<T *>(b.part_bias) +
               (part_of_unit(b, pair, unit) * b.block_rows + at.row - tile * b.block_rows) * static_cast<int64_t>(p.len_k);
    }

    const int thread = kBlock ? static_cast<int>(threadIdx.x) : lane_index(), threads = kBlock ? kWideThreads : kLanes;
    const int end = slice.first_key + slice.keys;
    for (int key = slice.first_key + thread; key < end; key += threads) {
        const bool is_near = row.range().has(key);
        T score = scores[key], slope = 1, probability = 0, gradient = 0;
        if (is_near && row.modify(key, score, slope)) {
            probability = exp(score - numbers.lse);
            gradient = probability * (gradients[key] - numbers.delta);
        }
        scores[key] = probability;
        gradients[key] = gradient * slope;
        if (bias && is_near) bias[key] = gradient;
    }
}

template <class T>
GradientKernel composed_kernel(bool block_a_row, bool sparse) {
    if (sparse) return block_a_row ? &attention_backward_composed<T, true, true> : &attention_backward_composed<T, false, true>;
    return block_a_row ? &attention_backward_composed<T, true, false> : &attention_backward_composed<T, false, false>;
}

}  // namespace

GradientKernel attention_backward_composed_kernel(bool is_f64, bool block_a_row, bool sparse) {
    return is_f64 ? composed_kernel<double>(block_a_row, sparse) : composed_kernel<float>(block_a_row, sparse);
}

}  // namespace attile::gpu::simt
