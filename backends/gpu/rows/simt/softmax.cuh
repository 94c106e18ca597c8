// SPDX-License-Identifier: Apache-2.0
// Softmax along rows at the speed of memory; many rows of up to 65536 floats have a kernel in rows/simt/softmax_whole.cuh, an axis whose
// neighbours are contiguous has softmax_columns.cuh:
//
// softmax_cached   rows of up to 32768 floats in registers: read once, written once. kWidth threads (4, 32, 256; whole vectors also 512,
//                  1024) share a row and hold 32 elements each; short rows are taken four at a time, 8 elements of each.
// softmax_stream   longer rows, cut into splits: tasks that find a split's maximum and sum, and tasks that write its result. Blocks draw
//                  tasks by ticket, in an order in which a row's second visit finds it in the L2 cache; a task waits only for tasks of
//                  earlier tickets, which running blocks hold.
//
// A state is (maximum, sum of exponentials relative to it); the maximum ignores NaN, the sum does not. A maximum of -inf is an empty sum,
// for which 0 stands in as reference, so that -inf gives 0 and NaN gives NaN without a branch. Block 256 threads, or kWidth. Shared: at
// most 32 values or 8 states. Bound: memory. Record: docs/kernels/rows.md.
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
    int32_t steps = 0;       // By columns: what a launch does, SoftmaxStep.
};

enum SoftmaxStep : int32_t { kSoftmaxStates = 1, kSoftmaxWrites = 2 };

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

// Stores kVec results at consecutive places, in as many accesses as they need; else those from `from` to `end` alone.
template <int kVec, class Out, class Make>
ATTILE_LANE_FN void store_results(Out *y, Make make, bool are_all = true, int from = 0, int end = kVec) {
    constexpr int kStore = sizeof(Out) * kVec <= 16 ? kVec : 16 / sizeof(Out);
#pragma unroll
    for (int part = 0; part < kVec; part += kStore) {
        Vec<Out, kStore> stored;
#pragma unroll
        for (int j = 0; j < kStore; ++j) stored[j] = from_compute<Out>(make(part + j));
        if (are_all) {
            store_vec_last(y + part, stored);
            continue;
        }
#pragma unroll
        for (int j = 0; j < kStore; ++j)
            if (part + j >= from && part + j < end) y[part + j] = stored[j];
    }
}

// Elements before the first one of a row that is at a multiple of 16 bytes.
template <int kVec, class T>
ATTILE_LANE_FN int before_vector(const T *row) {
    return (kVec - static_cast<int>(reinterpret_cast<uintptr_t>(row) / sizeof(T) % kVec)) % kVec;
}

// Elements that a thread of softmax_cached holds, of one row or of several.
inline constexpr int softmax_held(int element_bytes) { return element_bytes == 8 ? 16 : 32; }

// Vectors that a thread of softmax_stream loads at once: as many elements as softmax_cached holds, but no more accesses than pay.
inline constexpr int softmax_stream_vectors(int element_bytes, int vec) { return vec > 1 && element_bytes < 8 ? 32 / vec : 8; }

// Rows it holds where they are short.
inline constexpr int kSoftmaxRows = 4;

// Blocks of softmax_cached that a unit must hold: as many as its registers allow without spills. Compilers for Pascal take more of them.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 700
inline constexpr bool kTakesMoreRegisters = true;
#else
inline constexpr bool kTakesMoreRegisters = false;
#endif
inline constexpr int softmax_blocks(int width, int rows, int vec, int element_bytes) {
    const bool is_short = rows > 1, is_block = width == kRowThreads;
    if (width > kRowThreads) return 1024 / width;
    if (element_bytes > 2) return vec == 1 || (is_block && is_short) ? 2 : 3;
    if (vec > 1) return 4 - is_short - (kTakesMoreRegisters && is_block);
    return kTakesMoreRegisters ? (is_short || is_block ? 2 : 1) : is_short && is_block ? 2 : 3;
}

// Likewise of softmax_stream.
inline constexpr int softmax_stream_blocks(int element_bytes) { return element_bytes == 8 ? 1 : element_bytes == 4 ? 3 : 2; }

// A vector of softmax_cached. Those of 16 bits are kept in pairs: put together one by one at a row's ends, each would take a register.
template <class T, int kVec>
struct HeldVector {
    static constexpr bool kPaired = sizeof(T) == 2 && kVec > 1;
    static constexpr int kOfWord = kPaired ? 2 : 1;
    using Word = std::conditional_t<kPaired, uint32_t, T>;
    Vec<Word, kVec / kOfWord> words;

    ATTILE_LANE_FN T operator[](int j) const {
        if constexpr (kPaired)
            return T{static_cast<uint16_t>(words[j / 2] >> 16 * (j % 2))};
        else
            return words[j];
    }
    ATTILE_LANE_FN void set(int j, T value) {
        static_assert(!kPaired, "pairs are not set by halves");
        words[j] = value;
    }
    template <class Make>
    ATTILE_LANE_FN void fill(const Make &make) {
#pragma unroll
        for (int w = 0; w < kVec / kOfWord; ++w) {
            if constexpr (kPaired)
                words[w] = make(2 * w).bits | uint32_t{make(2 * w + 1).bits} << 16;
            else
                words[w] = make(w);
        }
    }
    ATTILE_LANE_FN void load(const T *from) { words = load_vec<kVec / kOfWord>(reinterpret_cast<const Word *>(from)); }
};

template <class T, class Out, int kWidth, int kRows, int kVec>
__global__ void ATTILE_LAUNCH_BOUNDS(kWidth > kRowThreads ? kWidth : kRowThreads, softmax_blocks(kWidth, kRows, kVec, sizeof(T)))
    softmax_cached(const SoftmaxArguments arguments) {
    using C = Compute<T>;
    constexpr int kThreads = kWidth > kRowThreads ? kWidth : kRowThreads;
    constexpr int kGroups = kThreads / kWidth;
    constexpr int kPer = softmax_held(sizeof(T)) / (kRows * kVec);  // Vectors of a row.
    constexpr bool kHasEnds = kVec > 1 && kWidth <= kRowThreads;    // Rows need not be of whole vectors.
    constexpr bool kKeeps = sizeof(T) >= 4;  // Exponentials replace the elements; 16-bit ones are made twice instead.
    __shared__ C shared[kRows * kThreads / kLanes];
    const int group = static_cast<int>(threadIdx.x) / kWidth;
    const int lane = static_cast<int>(threadIdx.x) % kWidth;
    const int64_t rows = arguments.axes.count();
    const int64_t step_x = kVec > 1 ? kVec : arguments.stride_x, step_y = kVec > 1 ? kVec : arguments.stride_y;
    const int length = static_cast<int>(arguments.length);

    for (int64_t base = int64_t{blockIdx.x} * (kGroups * kRows); base < rows; base += int64_t{gridDim.x} * (kGroups * kRows)) {
        // What is not there is -inf, which adds nothing.
        const T nothing = from_compute<T>(lowest<C>());
        HeldVector<T, kVec> held[kRows][kPer];
        C references[kRows], sums[kRows];
        int first[kRows];  // Of the row, the element that the thread's first vector begins with: vectors are where x has them.
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
            const int64_t number = base + row * kGroups + group;
            const bool is_row = kGroups * kRows == 1 || number < rows;
            const T *x = static_cast<const T *>(arguments.x) + row_offset(arguments.axes, is_row ? number : 0).x;
            first[row] = lane * kVec - (kHasEnds ? (kVec - before_vector<kVec>(x)) % kVec : 0);
            if (!is_row) first[row] = length;
            x += kVec > 1 ? int64_t{first[row]} : lane * step_x;
#pragma unroll
            for (int u = 0; u < kPer; ++u, x += kWidth * step_x) {
                held[row][u].fill([&](int) { return nothing; });
                const int at = first[row] + u * kWidth * kVec;
                if (at >= 0 && at + kVec <= length)
                    held[row][u].load(x);
                else if (kHasEnds && at < length)
                    held[row][u].fill([&](int j) { return at + j >= 0 && at + j < length ? x[j] : nothing; });
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
                if constexpr (kKeeps) held[row][i / kVec].set(i % kVec, value);
                sums[row] += value;
            }
        }
        row_fold<kWidth>(sums, shared, [](C a, C b) { return a + b; });
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
            const int64_t number = base + row * kGroups + group;
            const bool is_row = kGroups * kRows == 1 || number < rows;
            Out *y = static_cast<Out *>(arguments.y) + row_offset(arguments.axes, is_row ? number : 0).y +
                     (kVec > 1 ? int64_t{first[row]} : lane * step_y);
            const C scale = sums[row] == C(0) ? C(0) : C(1) / sums[row];
            if constexpr (!kKeeps) schedule_fence(references[row]);  // Made anew, not remembered.
#pragma unroll
            for (int u = 0; u < kPer; ++u, y += kWidth * step_y) {
                const int at = first[row] + u * kWidth * kVec;
                if (at >= length) continue;
                const auto make = [&](int j) {
                    const C value = to_compute(held[row][u][j]);
                    return (kKeeps ? value : exp_difference(value, references[row])) * scale;
                };
                store_results<kVec>(y, make, !kHasEnds || (at >= 0 && at + kVec <= length), -at, length - at);
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
__global__ void ATTILE_LAUNCH_BOUNDS(kRowThreads, softmax_stream_blocks(sizeof(T))) softmax_stream(const SoftmaxArguments arguments) {
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
        const T *x = static_cast<const T *>(arguments.x) + offset.x;
        // A row's splits but the first begin where vectors do; what is before its first vector is the first split's.
        const int64_t before = kVec > 1 ? before_vector<kVec>(x) : 0, head = before < arguments.length ? before : arguments.length;
        const int64_t start = task.split * arguments.split_length + head;
        const int64_t left = arguments.length - start;
        const int64_t count = left < arguments.split_length ? left : arguments.split_length;
        x += start * arguments.stride_x;
        const int64_t vectors = count > 0 ? count / kVec : 0;
        // Elements that no vector holds: those of the head, then those behind the vectors, from the split's beginning on.
        const int64_t alone = (task.split == 0 ? head : 0) + (count > 0 ? count - vectors * kVec : 0);
        const auto place_alone = [&](int64_t i) {
            return task.split != 0 ? vectors * kVec + i : i < head ? i - head : vectors * kVec + i - head;
        };
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
            for (int64_t i = thread; i < alone; i += kRowThreads) {
                const Vec<T, 1> last[1] = {load_vec<1>(x + place_alone(i) * arguments.stride_x)};
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
        for (int64_t i = thread; i < alone; i += kRowThreads) {
            const int64_t at = place_alone(i);
            y[at] = from_compute<Out>(exp_difference(to_compute(x[at]), reference) * scale);
        }
    }
}

}  // namespace attile::gpu::simt
