// SPDX-License-Identifier: Apache-2.0
// Step: reduction 1 global
// Title: A tree in global memory
// Changes: Nothing yet. Each launch folds the upper half of what is left onto the lower half, in global memory.
// Why: It is the simplest tree that is right. Every level reads what is left and writes half of it, so memory moves three times the
//   input, and the last twenty levels are launches that do next to nothing.
// Intensity: n additions for 12 n bytes: 1/12 FLOP/B.
#include "ladder_reduce.h"

namespace {

// y[i] = x[i] + x[i + half]; the element in the middle of an odd count has no partner. In place from the second launch on: what is read
// beyond half is written by nobody.
__global__ void fold(const float *x, float *y, int64_t n, int64_t half) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < half) y[i] = i + half < n ? x[i] + x[i + half] : x[i];
}

void launch(const ladder::Reduction &p) {
    const float *from = p.x;
    int64_t left = p.n;
    do {
        const int64_t half = (left + 1) / 2;
        float *const to = half == 1 ? p.result : p.scratch;
        fold<<<static_cast<unsigned>(ladder::ceil_div(half, ladder::kReduceThreads)), ladder::kReduceThreads>>>(from, to, left, half);
        from = to;
        left = half;
    } while (left > 1);
}

double traffic(double n) { return 12 * n; }

[[maybe_unused]] const bool added = ladder::add_reduce({1, "global", launch, traffic});

}  // namespace
