// SPDX-License-Identifier: Apache-2.0
// Softmax over an axis where one that stays is contiguous: neighbouring threads take neighbouring columns, 12 bytes an element. One launch
// where a block takes whole columns; else one makes the states of splits, one merges them and one writes. Block 256 threads. Shared:
// 256 x kVec states, 16384 bytes. Bound: memory. Record: docs/kernels/rows.md.
#pragma once

#include "rows/simt/softmax.cuh"

namespace attile::gpu::simt {

// Columns that a block of softmax_merge_states takes at a time.
inline constexpr int kSoftmaxMergeColumns = 32;

// Rows that a thread of softmax_columns loads at once.
inline constexpr int softmax_column_rows(int vec) { return vec > 1 ? 4 : 8; }

// Blocks of softmax_columns that a unit must hold: as many as its registers allow without spills.
inline constexpr int softmax_column_blocks(int vec, int element_bytes) { return element_bytes == 8 ? 1 : vec > 1 ? 2 : 3; }

template <class T, class Out, int kVec>
__global__ void ATTILE_LAUNCH_BOUNDS(kRowThreads, softmax_column_blocks(kVec, sizeof(T)))
    softmax_columns(const SoftmaxArguments arguments) {
    using C = Compute<T>;
    using State = SoftmaxState<C>;
    constexpr int kUnroll = softmax_column_rows(kVec);
    __shared__ State shared[kVec][kRowThreads];
    const MergeStates<C> merge;
    const int lanes = arguments.lanes, slots = kRowThreads / lanes;
    const int lane = static_cast<int>(threadIdx.x) & (lanes - 1), slot = static_cast<int>(threadIdx.x) / lanes;
    const int64_t tile_columns = int64_t{lanes} * kVec;
    const int64_t tiles = (arguments.columns + tile_columns - 1) / tile_columns;
    const int64_t items = arguments.axes.count() * tiles * arguments.splits;
    for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
        const Division of_tile = divide(item, tiles);
        const Division of_row = divide(of_tile.quotient, arguments.axes.count());
        const int64_t column = of_tile.remainder * tile_columns + lane * kVec;
        const bool is_column = column < arguments.columns;
        const RowOffset offset = row_offset(arguments.axes, of_row.remainder);
        const int64_t start = of_row.quotient * arguments.split_length;
        const int64_t left = arguments.length - start;
        const int64_t count = !is_column ? 0 : left < arguments.split_length ? left : arguments.split_length;
        const T *x = static_cast<const T *>(arguments.x) + offset.x + column + start * arguments.stride_x;
        // [split][row][column]; the first split's become the whole's.
        const int64_t all_columns = arguments.axes.count() * arguments.columns;
        State *states = static_cast<State *>(arguments.states) + of_row.remainder * arguments.columns + column;
        const bool is_whole = arguments.steps == (kSoftmaxStates | kSoftmaxWrites);
        if ((arguments.steps & kSoftmaxStates) != 0) {
            State state[kVec];
#pragma unroll
            for (int j = 0; j < kVec; ++j) state[j] = empty_state<C>();
            for (int64_t r = slot; r < count; r += kUnroll * slots) {
                Vec<T, kVec> loaded[kUnroll];
#pragma unroll
                for (int u = 0; u < kUnroll; ++u) {
                    if (r + u * slots < count) loaded[u] = load_vec<kVec>(x + (r + u * slots) * arguments.stride_x);
                }
                add_elements(state, loaded, static_cast<int>((count - r + slots - 1) / slots));
            }
            for (int half = slots / 2; half > 0; half /= 2) {
                __syncthreads();
                if (slot >= half && slot < 2 * half) {
#pragma unroll
                    for (int j = 0; j < kVec; ++j) shared[j][threadIdx.x] = state[j];
                }
                __syncthreads();
                if (slot < half) {
#pragma unroll
                    for (int j = 0; j < kVec; ++j) state[j] = merge(state[j], shared[j][threadIdx.x + half * lanes]);
                }
            }
            if (!is_whole) {
                if (slot == 0 && is_column) {
#pragma unroll
                    for (int j = 0; j < kVec; ++j) states[of_row.quotient * all_columns + j] = state[j];
                }
                continue;
            }
            __syncthreads();  // Other slots' states, and the last columns', have been read.
            if (slot == 0) {
#pragma unroll
                for (int j = 0; j < kVec; ++j) shared[j][lane] = state[j];
            }
            __syncthreads();
        }
        C references[kVec], scales[kVec];
#pragma unroll
        for (int j = 0; j < kVec; ++j) {
            const State whole = is_whole ? shared[j][lane] : is_column ? states[j] : empty_state<C>();
            references[j] = whole.reference();
            scales[j] = whole.scale();
        }
        Out *y = static_cast<Out *>(arguments.y) + offset.y + column * arguments.column_y + start * arguments.stride_y;
        for (int64_t r = slot; r < count; r += kUnroll * slots) {
            Vec<T, kVec> loaded[kUnroll];
#pragma unroll
            for (int u = 0; u < kUnroll; ++u) {
                if (r + u * slots < count) loaded[u] = load_vec<kVec>(x + (r + u * slots) * arguments.stride_x);
            }
#pragma unroll
            for (int u = 0; u < kUnroll; ++u) {
                if (r + u * slots >= count) continue;
                store_results<kVec>(y + (r + u * slots) * arguments.stride_y,
                                    [&](int j) { return exp_difference(to_compute(loaded[u][j]), references[j]) * scales[j]; });
            }
        }
    }
}

// Merges the states of a column's splits into the first's place. A launch of its own, or every writing block would read all of them.
// A warp's threads take neighbouring columns, and its number among eight every eighth split.
template <class C>
__global__ void ATTILE_LAUNCH_BOUNDS(kRowThreads, 1) softmax_merge_states(const SoftmaxArguments arguments) {
    constexpr int kColumns = kSoftmaxMergeColumns, kSlots = kRowThreads / kColumns;
    __shared__ SoftmaxState<C> shared[kSlots][kColumns];
    const MergeStates<C> merge;
    SoftmaxState<C> *states = static_cast<SoftmaxState<C> *>(arguments.states);
    const int64_t all_columns = arguments.axes.count() * arguments.columns;
    const int lane = static_cast<int>(threadIdx.x) % kColumns, slot = static_cast<int>(threadIdx.x) / kColumns;
    for (int64_t first = int64_t{blockIdx.x} * kColumns; first < all_columns; first += int64_t{gridDim.x} * kColumns) {
        const int64_t column = first + lane;
        SoftmaxState<C> whole = empty_state<C>();
        if (column < all_columns) {
#pragma unroll 4
            for (int split = slot; split < arguments.splits; split += kSlots) whole = merge(whole, states[split * all_columns + column]);
        }
        shared[slot][lane] = whole;
        __syncthreads();
        if (slot == 0 && column < all_columns) {
#pragma unroll
            for (int other = 1; other < kSlots; ++other) whole = merge(whole, shared[other][lane]);
            states[column] = whole;
        }
        __syncthreads();
    }
}

}  // namespace attile::gpu::simt
