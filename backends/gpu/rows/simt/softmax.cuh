// SPDX-License-Identifier: Apache-2.0
// Softmax over one axis at the speed of memory; many rows of up to 65536 floats have a kernel in rows/simt/softmax_whole.cuh:
//
// softmax_cached   rows of up to 32768 floats in registers: read once, written once. kWidth threads (4, 32, 256; whole vectors also 512,
//                  1024) share a row and hold 32 elements each; short rows are taken four at a time, 8 elements of each.
// softmax_stream   longer rows, cut into splits: tasks that find a split's maximum and sum, and tasks that write its result. Blocks draw
//                  tasks by ticket, in an order in which a row's second visit finds it in the L2 cache; a task waits only for tasks of
//                  earlier tickets, which running blocks hold.
// softmax_columns  an axis that stays is contiguous: neighbouring threads take neighbouring columns, in two launches, 12 bytes an element.
//
// A state is (maximum, sum of exponentials relative to it); the maximum ignores NaN, the sum does not. A maximum of -inf is an empty sum,
// for which 0 stands in as reference, so that -inf gives 0 and NaN gives NaN without a branch. Block 256 threads, or kWidth. Shared: at
// most 32 values or 8 states; columns: 256 x kVec states, 16384 bytes. Bound: memory. Record: docs/kernels/rows.md.
#pragma once

#include "rows/rows.h"
#include "vec.h"

namespace attile::gpu::simt {

struct SoftmaxArguments {
    const void *x = nullptr;
    void *y = nullptr;
    void *states = nullptr;                // [row][split]; by columns [split][row][column]
    int32_t *done = nullptr;               // Stream: splits of each row whose state is there,
    unsigned long long *ticket = nullptr;  // and the next task; softmax_whole: the next row, null if there are no more than blocks.
    RowAxes axes;                          // Rows; by columns, all but the contiguous axis.
    int64_t columns = 1;                   // By columns: extent of the contiguous axis,
    int64_t column_y = 0;                  // and its stride in y.
    int64_t length = 0;                    // Of the normalised axis,
    int64_t stride_x = 0;                  // and its strides.
    int64_t stride_y = 0;
    int32_t splits = 1;
    int64_t split_length = 0;
    int64_t group_rows = 1;  // Stream: rows that are visited together.
    int32_t lanes = 1;       // By columns: threads along them, a power of two up to 256.
    int32_t writes = 0;      // By columns: the second launch.
};

template <class C>
struct SoftmaxState {
    C maximum, sum;
    ATTILE_LANE_FN C reference() const { return maximum == lowest<C>() ? C(0) : maximum; }
    ATTILE_LANE_FN C scale() const { return sum == C(0) ? C(0) : C(1) / sum; }
};

template <class C>
struct MergeStates {
    ATTILE_LANE_FN SoftmaxState<C> operator()(const SoftmaxState<C> &a, const SoftmaxState<C> &b) const {
        SoftmaxState<C> merged = {fmax(a.maximum, b.maximum), C(0)};
        const C reference = merged.reference();
        merged.sum = a.sum * exp_difference(a.maximum, reference) + b.sum * exp_difference(b.maximum, reference);
        return merged;
    }
};

template <class C>
ATTILE_LANE_FN SoftmaxState<C> empty_state() {
    return {lowest<C>(), C(0)};
}

// Stores kVec results at consecutive places, in as many accesses as they need.
template <int kVec, class Out, class Make>
ATTILE_LANE_FN void store_results(Out *y, Make make) {
    constexpr int kStore = sizeof(Out) * kVec <= 16 ? kVec : 16 / sizeof(Out);
#pragma unroll
    for (int part = 0; part < kVec; part += kStore) {
        Vec<Out, kStore> stored;
#pragma unroll
        for (int j = 0; j < kStore; ++j) stored[j] = from_compute<Out>(make(part + j));
        store_vec_last(y + part, stored);
    }
}

// Elements that a thread of softmax_cached holds, of one row or of several.
inline constexpr int softmax_held(int element_bytes) { return element_bytes == 8 ? 16 : 32; }

// Vectors that a thread of softmax_stream loads at once: as many elements as softmax_cached holds, but no more accesses than pay.
inline constexpr int softmax_stream_vectors(int element_bytes, int vec) { return vec > 1 && element_bytes < 8 ? 32 / vec : 8; }

// Rows it holds where they are short.
inline constexpr int kSoftmaxRows = 4;

// Blocks of softmax_cached that a unit must hold: as many as its registers allow without spills.
inline constexpr int softmax_blocks(int width, int rows, int vec, int element_bytes) {
    if (width > kRowThreads) return 1024 / width;
    if (vec == 1 && element_bytes == 2) return 1;
    return vec == 1 || element_bytes == 2 || (width == kRowThreads && rows > 1) ? 2 : 3;
}

template <class T, class Out, int kWidth, int kRows, int kVec>
__global__ void ATTILE_LAUNCH_BOUNDS(kWidth > kRowThreads ? kWidth : kRowThreads, softmax_blocks(kWidth, kRows, kVec, sizeof(T)))
    softmax_cached(const SoftmaxArguments arguments) {
    using C = Compute<T>;
    constexpr int kThreads = kWidth > kRowThreads ? kWidth : kRowThreads;
    constexpr int kGroups = kThreads / kWidth;
    constexpr int kPer = softmax_held(sizeof(T)) / (kRows * kVec);  // Vectors of a row.
    constexpr bool kKeeps = sizeof(T) >= 4;  // Exponentials replace the elements; 16-bit ones are made twice instead.
    __shared__ C shared[kRows * kThreads / kLanes];
    const int group = static_cast<int>(threadIdx.x) / kWidth;
    const int lane = static_cast<int>(threadIdx.x) % kWidth;
    const int64_t rows = arguments.axes.count();
    const int64_t step_x = kVec > 1 ? kVec : arguments.stride_x, step_y = kVec > 1 ? kVec : arguments.stride_y;
    const int vectors = static_cast<int>(arguments.length) / kVec;

    for (int64_t base = int64_t{blockIdx.x} * (kGroups * kRows); base < rows; base += int64_t{gridDim.x} * (kGroups * kRows)) {
        // What is not there is -inf, which adds nothing.
        Vec<T, kVec> held[kRows][kPer];
        C references[kRows], sums[kRows];
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
            const int64_t number = base + row * kGroups + group;
            const bool is_row = kGroups * kRows == 1 || number < rows;
            const int here = is_row ? vectors - lane : 0;
            const T *x = static_cast<const T *>(arguments.x) + row_offset(arguments.axes, is_row ? number : 0).x + lane * step_x;
#pragma unroll
            for (int u = 0; u < kPer; ++u, x += kWidth * step_x) {
#pragma unroll
                for (int j = 0; j < kVec; ++j) held[row][u][j] = from_compute<T>(lowest<C>());
                if (u * kWidth < here) held[row][u] = load_vec<kVec>(x);
            }
        }
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
            references[row] = lowest<C>();
#pragma unroll
            for (int i = 0; i < kPer * kVec; ++i) references[row] = fmax(references[row], to_compute(held[row][i / kVec][i % kVec]));
        }
        row_fold<kWidth>(references, shared, [](C a, C b) { return fmax(a, b); });
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
            references[row] = references[row] == lowest<C>() ? C(0) : references[row];
            sums[row] = 0;
#pragma unroll
            for (int i = 0; i < kPer * kVec; ++i) {
                C value = exp_difference(to_compute(held[row][i / kVec][i % kVec]), references[row]);
                schedule_fence(value);
                if constexpr (kKeeps) held[row][i / kVec][i % kVec] = value;
                sums[row] += value;
            }
        }
        row_fold<kWidth>(sums, shared, [](C a, C b) { return a + b; });
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
            const int64_t number = base + row * kGroups + group;
            const bool is_row = kGroups * kRows == 1 || number < rows;
            const int here = is_row ? vectors - lane : 0;
            Out *y = static_cast<Out *>(arguments.y) + row_offset(arguments.axes, is_row ? number : 0).y + lane * step_y;
            const C scale = sums[row] == C(0) ? C(0) : C(1) / sums[row];
            if constexpr (!kKeeps) schedule_fence(references[row]);  // Made anew, not remembered.
#pragma unroll
            for (int u = 0; u < kPer; ++u, y += kWidth * step_y) {
                if (u * kWidth >= here) continue;
                store_results<kVec>(y, [&](int j) {
                    const C value = to_compute(held[row][u][j]);
                    return (kKeeps ? value : exp_difference(value, references[row])) * scale;
                });
            }
        }
    }
}

// Adds kRows x kVec elements to kVec states (columns), or all to one (a row); those of rows from `valid` on do not exist.
template <int kRows, int kVec, int kStates, class T, class C>
ATTILE_LANE_FN void add_elements(SoftmaxState<C> (&states)[kStates], const Vec<T, kVec> (&loaded)[kRows], int valid) {
    static_assert(kStates == 1 || kStates == kVec, "one state, or one a column");
    constexpr int kTogether = kVec / kStates;
#pragma unroll
    for (int s = 0; s < kStates; ++s) {
        C maximum = states[s].maximum;
#pragma unroll
        for (int i = 0; i < kRows * kTogether; ++i) {
            const C value = to_compute(loaded[i / kTogether][s + i % kTogether]);
            maximum = i / kTogether < valid ? fmax(maximum, value) : maximum;
        }
        const C reference = maximum == lowest<C>() ? C(0) : maximum;
        C sum = 0;
#pragma unroll
        for (int i = 0; i < kRows * kTogether; ++i) {
            const C value = exp_difference(to_compute(loaded[i / kTogether][s + i % kTogether]), reference);
            sum += i / kTogether < valid ? value : C(0);
        }
        states[s].sum = states[s].sum * exp_difference(states[s].maximum, reference) + sum;
        states[s].maximum = maximum;
    }
}

// A task of softmax_stream, by its ticket.
struct SoftmaxTask {
    int64_t row;
    int64_t split;
    bool is_state;  // Else: write results.
};

// Rounds of a group's tasks each: states of group 0, states of 1, results of 0, states of 2, results of 1, ... results of the last.
ATTILE_LANE_FN SoftmaxTask softmax_task(const SoftmaxArguments &arguments, const Division &round, int64_t groups) {
    const bool is_last = round.quotient == 2 * groups - 1;
    const bool is_state = round.quotient == 0 || (round.quotient % 2 == 1 && !is_last);
    const int64_t group = is_last ? groups - 1 : is_state ? (round.quotient + 1) / 2 : round.quotient / 2 - 1;
    const Division task = divide(round.remainder, arguments.splits);
    return {group * arguments.group_rows + task.quotient, task.remainder, is_state};
}

template <class T, class Out, int kVec>
__global__ void ATTILE_LAUNCH_BOUNDS(kRowThreads, sizeof(T) == 2 ? 2 : 3) softmax_stream(const SoftmaxArguments arguments) {
    using C = Compute<T>;
    using State = SoftmaxState<C>;
    constexpr int kHeld = softmax_stream_vectors(sizeof(T), kVec);
    __shared__ State shared[kRowThreads / kLanes];
    __shared__ unsigned long long tickets[2];
    const MergeStates<C> merge;
    const int thread = static_cast<int>(threadIdx.x);
    const int64_t rows = arguments.axes.count();
    const int64_t groups = (rows + arguments.group_rows - 1) / arguments.group_rows;
    const int64_t group_tasks = arguments.group_rows * arguments.splits;
    const int64_t stride_x = kVec > 1 ? kVec : arguments.stride_x, stride_y = kVec > 1 ? kVec : arguments.stride_y;
    if (thread == 0) tickets[0] = atomicAdd(arguments.ticket, 1ULL);
    for (int parity = 0;; parity ^= 1) {
        __syncthreads();
        const Division round = divide(static_cast<int64_t>(tickets[parity]), group_tasks);
        if (round.quotient >= 2 * groups) return;
        // The next ticket is drawn now and used after this task. A task waits for earlier tickets alone, and so does one that is held back.
        if (thread == kLanes) tickets[parity ^ 1] = atomicAdd(arguments.ticket, 1ULL);
        const SoftmaxTask task = softmax_task(arguments, round, groups);
        if (task.row >= rows) continue;
        const RowOffset offset = row_offset(arguments.axes, task.row);
        const int64_t start = task.split * arguments.split_length;
        const int64_t left = arguments.length - start;
        const int64_t count = left < arguments.split_length ? left : arguments.split_length;
        const T *x = static_cast<const T *>(arguments.x) + offset.x + start * arguments.stride_x;
        const int64_t vectors = count / kVec;
        State *states = static_cast<State *>(arguments.states) + task.row * arguments.splits;
        Vec<T, kVec> held[kHeld];
        const auto load = [&](int64_t first) {
#pragma unroll
            for (int u = 0; u < kHeld; ++u) {
                if (first + u * kRowThreads < vectors) held[u] = load_vec<kVec>(x + (first + u * kRowThreads) * stride_x);
            }
        };
        load(thread);  // Before anything that waits.
        if (task.is_state) {
            State state[1] = {empty_state<C>()};
            for (int64_t v = thread; v < vectors;) {
                add_elements(state, held, static_cast<int>((vectors - v + kRowThreads - 1) / kRowThreads));
                v += kHeld * kRowThreads;
                load(v);
            }
            for (int64_t i = vectors * kVec + thread; i < count; i += kRowThreads) {
                const Vec<T, 1> last[1] = {load_vec<1>(x + i)};
                add_elements(state, last, 1);
            }
            const State whole = row_fold<kRowThreads>(state[0], shared, merge);
            if (thread == 0) {
                states[task.split] = whole;
                __threadfence();
                atomicAdd(&arguments.done[task.row], 1);
            }
            continue;
        }
        if (thread == 0) {
            while (load_fresh(&arguments.done[task.row]) < arguments.splits) {
            }
            __threadfence();
        }
        __syncthreads();
        State whole = empty_state<C>();
        for (int split = thread; split < arguments.splits; split += kRowThreads) {
            whole = merge(whole, State{load_fresh(&states[split].maximum), load_fresh(&states[split].sum)});
        }
        whole = row_fold<kRowThreads>(whole, shared, merge);
        const C reference = whole.reference(), scale = whole.scale();
        Out *y = static_cast<Out *>(arguments.y) + offset.y + start * arguments.stride_y;
        for (int64_t v = thread; v < vectors;) {
#pragma unroll
            for (int u = 0; u < kHeld; ++u) {
                if (v + u * kRowThreads >= vectors) continue;
                store_results<kVec>(y + (v + u * kRowThreads) * stride_y,
                                    [&](int j) { return exp_difference(to_compute(held[u][j]), reference) * scale; });
            }
            v += kHeld * kRowThreads;
            load(v);
        }
        for (int64_t i = vectors * kVec + thread; i < count; i += kRowThreads) {
            y[i] = from_compute<Out>(exp_difference(to_compute(x[i]), reference) * scale);
        }
    }
}

template <class T, class Out, int kVec>
__global__ void ATTILE_LAUNCH_BOUNDS(kRowThreads, 3) softmax_columns(const SoftmaxArguments arguments) {
    using C = Compute<T>;
    using State = SoftmaxState<C>;
    constexpr int kUnroll = sizeof(T) == 4 ? 4 : 2;
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
        if (arguments.writes == 0) {
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
            if (slot == 0 && is_column) {
#pragma unroll
                for (int j = 0; j < kVec; ++j) states[of_row.quotient * all_columns + j] = state[j];
            }
            continue;
        }
        C references[kVec], scales[kVec];
#pragma unroll
        for (int j = 0; j < kVec; ++j) {
            const State whole = is_column ? states[j] : empty_state<C>();
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
template <class C>
__global__ void ATTILE_LAUNCH_BOUNDS(kRowThreads, 1) softmax_merge_states(const SoftmaxArguments arguments) {
    const MergeStates<C> merge;
    SoftmaxState<C> *states = static_cast<SoftmaxState<C> *>(arguments.states);
    const int64_t all_columns = arguments.axes.count() * arguments.columns;
    for (int64_t i = int64_t{blockIdx.x} * kRowThreads + threadIdx.x; i < all_columns; i += int64_t{gridDim.x} * kRowThreads) {
        SoftmaxState<C> whole = states[i];
        for (int split = 1; split < arguments.splits; ++split) whole = merge(whole, states[split * all_columns + i]);
        states[i] = whole;
    }
}

}  // namespace attile::gpu::simt
