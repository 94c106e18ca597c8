// SPDX-License-Identifier: Apache-2.0
// Softmax of long rows that one block holds on chip: 53 vectors a thread in registers and 11 in shared memory, 65536 floats. Each element
// is read once and written once, 8 bytes, the least there is.
//
// While a row's later loads arrive, the elements of earlier ones become exponentials relative to the maximum of their group of nine
// vectors; at the end each group needs but one more factor. Stores ask for no place in the L2 cache, loads do. Blocks take rows by ticket:
// multiprocessors do not run alike, and with as many rows for each the last one is waited for.
//
// Block 256 threads, one a multiprocessor. Shared: 11 * 256 * 16 + 8 * 8 + 2 * 8 = 45136 bytes. Registers (sm_61): 254, no spills. Bound:
// memory. Record: docs/kernels/rows.md.
#pragma once

#include "rows/simt/softmax.cuh"

namespace attile::gpu::simt {

inline constexpr int kSoftmaxWholeHeld = 53, kSoftmaxWholeKept = 11, kSoftmaxWholeGroup = 9;  // Vectors of a thread.
inline constexpr int64_t kSoftmaxWholeFloats = int64_t{kSoftmaxWholeHeld + kSoftmaxWholeKept} * kRowThreads * 4;

#if !defined(ATTILE_GPU_WAVES)
// Of float rows in whole vectors.
__global__ void ATTILE_LAUNCH_BOUNDS(kRowThreads, 1) softmax_whole(const SoftmaxArguments arguments) {
    using State = SoftmaxState<float>;
    using Quad = Vec<float, 4>;
    constexpr int kHeld = kSoftmaxWholeHeld, kKept = kSoftmaxWholeKept, kGroup = kSoftmaxWholeGroup,
                  kGroups = (kHeld + kGroup - 1) / kGroup;
    __shared__ Quad kept[kKept][kRowThreads];
    __shared__ State shared[kRowThreads / kLanes];
    __shared__ unsigned long long tickets[2];
    static_assert(sizeof kept + sizeof shared + sizeof tickets <= 49152, "48 KB");
    const int thread = static_cast<int>(threadIdx.x);
    const int64_t rows = arguments.axes.count();
    const int left = static_cast<int>(arguments.length) / 4 - thread;
    int parity = 0;
#pragma unroll 1
    for (int64_t row = blockIdx.x; row < rows; row = gridDim.x + static_cast<int64_t>(tickets[parity]), parity ^= 1) {
        const float *const x = static_cast<const float *>(arguments.x) + row_offset(arguments.axes, row).x + thread * 4;
        float *const y = static_cast<float *>(arguments.y) + row_offset(arguments.axes, row).y + thread * 4;
        // What is not there is -inf, which adds nothing.
        const auto fetch = [&](Quad &to, int u) {
#pragma unroll
            for (int j = 0; j < 4; ++j) to[j] = lowest<float>();
            if (u * kRowThreads < left) to = load_vec<4>(x + u * kRowThreads * 4);
        };
        // The thread's maximum so far, and the sum of exponentials relative to it.
        float top = lowest<float>(), sum = 0;
        // Exponentials, relative to the maximum of these, replace them. Returns the maximum.
        const auto absorb = [&](auto &quads, int first, int count) {
            float maximum = lowest<float>();
#pragma unroll
            for (int i = 0; i < count * 4; ++i) maximum = fmaxf(maximum, quads[first + i / 4][i % 4]);
            const float reference = maximum == lowest<float>() ? 0.0f : maximum;
            float part = 0;
#pragma unroll
            for (int i = 0; i < count * 4; ++i) {
                const float value = exp_difference(quads[first + i / 4][i % 4], reference);
                quads[first + i / 4][i % 4] = value;
                part += value;
            }
            const float higher = fmaxf(top, maximum), of_both = higher == lowest<float>() ? 0.0f : higher;
            sum = sum * exp_difference(top, of_both) + part * exp_difference(maximum, of_both);
            top = higher;
            return maximum;
        };
        Quad held[kHeld];
        float maxima[kGroups], maximum_kept;
        {
            // As many loads as registers take; the first to come leave theirs to the rest.
            constexpr int kBeside = kHeld - kKept - kGroup;
            Quad first[kKept];
#pragma unroll
            for (int u = 0; u < kKept; ++u) fetch(first[u], kHeld + u);
#pragma unroll
            for (int u = 0; u < kBeside; ++u) fetch(held[u], u);
            // The next row, while there is nothing to do but to wait. Two places in turn: others may still have to read the last one.
            if (thread == 0) tickets[parity] = arguments.ticket ? atomicAdd(arguments.ticket, 1ull) : rows;
            maximum_kept = absorb(first, 0, kKept);
#pragma unroll
            for (int u = 0; u < kKept; ++u) kept[u][thread] = first[u];
#pragma unroll
            for (int u = kBeside; u < kHeld; ++u) fetch(held[u], u);
        }
#pragma unroll
        for (int g = 0; g < kGroups; ++g) maxima[g] = absorb(held, g * kGroup, kHeld - g * kGroup < kGroup ? kHeld - g * kGroup : kGroup);
        const State whole = row_fold<kRowThreads>(State{top, sum}, shared, MergeStates<float>());
        const float reference = whole.reference(), scale = whole.scale();
#pragma unroll
        for (int u = 0; u < kHeld; ++u) {
            const float factor = exp_difference(maxima[u / kGroup], reference) * scale;
            if (u * kRowThreads < left) {
                store_results<4>(y + u * kRowThreads * 4, [&](int j) { return held[u][j] * factor; });
            }
        }
        const float factor = exp_difference(maximum_kept, reference) * scale;
#pragma unroll
        for (int u = 0; u < kKept; ++u) {
            const Quad one = kept[u][thread];
            if ((kHeld + u) * kRowThreads < left) {
                store_results<4>(y + (kHeld + u) * kRowThreads * 4, [&](int j) { return one[j] * factor; });
            }
        }
    }
}
#endif

}  // namespace attile::gpu::simt
