// SPDX-License-Identifier: Apache-2.0
// Merging of partial attention results: o = sum over parts p of exp(lse_p - lse) o_p, lse = log sum_p exp(lse_p).
//
// One thread makes up to four 16-byte vectors of one output row (one element where alignment or Dv forbid); the threads of a row read its
// few lse values through the cache. Up to kMergeParts parts at a time: their addresses travel in the kernel's parameters, so the call can
// be captured. More parts go in rounds, whose running result is one more part of the next. What a part with lse = -inf holds is never used.
// Traffic: every part once, the output once. Block 256 threads, no shared memory; intensity 1/2 FLOP a byte or less: bound by memory.
// Two parts of 128 MiB of floats each go at 3.1 TB/s on an H200. Record: docs/kernels/rows.md.
#pragma once

#include "rows/rows.h"
#include "vec.h"

namespace attile::gpu::simt {

inline constexpr int kMergeParts = 16;
inline constexpr int kMergeAhead = 2;  // Parts whose loads are under way at once.
// Most vectors of so many elements that a thread has of a row: finding the row and the weights of its parts takes more instructions than
// they do.
constexpr int merge_along(int vec) { return vec > 1 ? 4 : 1; }

struct MergePart {
    const void *o = nullptr;
    const void *lse = nullptr;
    int64_t stride[4] = {};      // Of o, axes b, h, l, d; d's is 1 for vectors.
    int64_t lse_stride[3] = {};  // Axes b, h, l.
};

struct MergeArguments {
    MergePart part[kMergeParts];
    int32_t parts = 0;
    int32_t along = 1;  // Vectors of a row that a thread has.
    int64_t heads = 0, len = 0, rows = 0, head_dim = 0;
    // The running result of earlier rounds, dense, of the compute type; absent in the first.
    const void *running_o = nullptr;
    const void *running_lse = nullptr;
    void *o = nullptr;
    void *lse = nullptr;
    int64_t stride[4] = {};
    int64_t lse_stride[3] = {};
};

static_assert(sizeof(MergeArguments) <= 4096, "kernel parameters");

template <class T, class Out, int kVec>
__global__ void ATTILE_LAUNCH_BOUNDS(kRowThreads, 2) merge_parts(const MergeArguments parameter) {
    const MergeArguments &arguments = kernel_parameter(parameter);
    using C = Compute<T>;
    constexpr int kAlong = merge_along(kVec);
    const int along = kAlong > 1 ? arguments.along : 1;
    const int64_t threads = arguments.head_dim / kVec / along;  // Of a row; a thread's vectors are so many vectors apart.
    const int64_t items = arguments.rows * threads;
    const int64_t all_threads = int64_t{gridDim.x} * kRowThreads;
    const C *running_lse = static_cast<const C *>(arguments.running_lse);
    for (int64_t item = int64_t{blockIdx.x} * kRowThreads + threadIdx.x; item < items; item += all_threads) {
        const Division of_row = divide(item, threads);
        const Division of_len = divide(of_row.quotient, arguments.len);
        const Division of_head = divide(of_len.quotient, arguments.heads);
        const int64_t row = of_row.quotient, column = of_row.remainder * kVec, step = threads * kVec;
        const int64_t b = of_head.quotient, h = of_head.remainder, l = of_len.remainder;
        const auto lse_of = [&](int p) {
            const MergePart &part = arguments.part[p];
            return static_cast<const C *>(part.lse)[b * part.lse_stride[0] + h * part.lse_stride[1] + l * part.lse_stride[2]];
        };
        const auto load_part = [&](int p, Vec<T, kVec>(&to)[kAlong]) {
            const MergePart &part = arguments.part[p];
            const T *o = static_cast<const T *>(part.o) + b * part.stride[0] + h * part.stride[1] + l * part.stride[2] +
                         column * (kVec > 1 ? 1 : part.stride[3]);
#pragma unroll
            for (int i = 0; i < kAlong; ++i) {
                if (i < along) to[i] = load_vec<kVec>(o + i * step);
            }
        };
        // Loads go out before anything waits for a weight; what a part without keys holds is dropped afterwards.
        Vec<T, kVec> loaded[kMergeAhead][kAlong];
#pragma unroll
        for (int p = 0; p < kMergeAhead; ++p) {
            if (p < arguments.parts) load_part(p, loaded[p]);
        }
        C maximum = running_lse != nullptr ? running_lse[row] : lowest<C>();
#pragma unroll 4
        for (int p = 0; p < arguments.parts; ++p) maximum = max_nan(maximum, lse_of(p));
        const bool is_empty = maximum == lowest<C>();
        C total = 0;
        C sums[kAlong][kVec];
#pragma unroll
        for (int i = 0; i < kAlong; ++i) {
#pragma unroll
            for (int j = 0; j < kVec; ++j) sums[i][j] = 0;
        }
        if (!is_empty && running_lse != nullptr && running_lse[row] != lowest<C>()) {
            const C weight = exp(running_lse[row] - maximum);
            const C *running = static_cast<const C *>(arguments.running_o) + row * arguments.head_dim + column;
            total = weight;
#pragma unroll
            for (int i = 0; i < kAlong; ++i) {
                if (i >= along) continue;
#pragma unroll
                for (int j = 0; j < kVec; ++j) sums[i][j] = weight * running[i * step + j];
            }
        }
        for (int first = 0; first < arguments.parts; first += kMergeAhead) {
#pragma unroll
            for (int ahead = 0; ahead < kMergeAhead; ++ahead) {
                const int p = first + ahead;
                if (p >= arguments.parts) continue;
                const C lse = lse_of(p);
                const bool counts = !is_empty && lse != lowest<C>();
                const C weight = counts ? exp(lse - maximum) : C(0);
                total += weight;
#pragma unroll
                for (int i = 0; i < kAlong; ++i) {
                    if (i >= along) continue;
#pragma unroll
                    for (int j = 0; j < kVec; ++j)
                        sums[i][j] = counts ? fused_multiply_add(weight, to_compute(loaded[ahead][i][j]), sums[i][j]) : sums[i][j];
                }
                if (p + kMergeAhead < arguments.parts) load_part(p + kMergeAhead, loaded[ahead]);
            }
        }
        const C scale = is_empty ? C(0) : C(1) / total;
        Out *o = static_cast<Out *>(arguments.o) + b * arguments.stride[0] + h * arguments.stride[1] + l * arguments.stride[2] +
                 column * (kVec > 1 ? 1 : arguments.stride[3]);
        constexpr int kStore = sizeof(Out) * kVec <= 16 ? kVec : kVec / 2;
#pragma unroll
        for (int i = 0; i < kAlong; ++i) {
            if (i >= along) continue;
#pragma unroll
            for (int at = 0; at < kVec; at += kStore) {
                Vec<Out, kStore> stored;
#pragma unroll
                for (int j = 0; j < kStore; ++j) stored[j] = from_compute<Out>(static_cast<Compute<Out>>(sums[i][at + j] * scale));
                store_vec(o + i * step + at, stored);
            }
        }
        // The lse may overwrite a part's, which other threads of the row still read: it is written by a launch of its own.
    }
}

// lse alone, a thread a row; after merge_parts, since it may overwrite one part's.
template <class C>
__global__ void ATTILE_LAUNCH_BOUNDS(kRowThreads, 1) merge_lse(const MergeArguments parameter) {
    const MergeArguments &arguments = kernel_parameter(parameter);
    const C *running_lse = static_cast<const C *>(arguments.running_lse);
    const int64_t all_threads = int64_t{gridDim.x} * kRowThreads;
    for (int64_t row = int64_t{blockIdx.x} * kRowThreads + threadIdx.x; row < arguments.rows; row += all_threads) {
        const Division of_len = divide(row, arguments.len);
        const Division of_head = divide(of_len.quotient, arguments.heads);
        const int64_t b = of_head.quotient, h = of_head.remainder, l = of_len.remainder;
        const auto lse_of = [&](int p) {
            const MergePart &part = arguments.part[p];
            return static_cast<const C *>(part.lse)[b * part.lse_stride[0] + h * part.lse_stride[1] + l * part.lse_stride[2]];
        };
        C maximum = running_lse != nullptr ? running_lse[row] : lowest<C>();
        for (int p = 0; p < arguments.parts; ++p) maximum = max_nan(maximum, lse_of(p));
        C result = maximum;
        if (maximum != lowest<C>()) {
            C total = running_lse != nullptr ? exp(running_lse[row] - maximum) : C(0);
            for (int p = 0; p < arguments.parts; ++p) total += exp(lse_of(p) - maximum);
            result = maximum + log(total);
        }
        static_cast<C *>(arguments.lse)[b * arguments.lse_stride[0] + h * arguments.lse_stride[1] + l * arguments.lse_stride[2]] = result;
    }
}

}  // namespace attile::gpu::simt
