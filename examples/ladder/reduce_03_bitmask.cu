// SPDX-License-Identifier: Apache-2.0
// Step: reduction 3 bitmask
// Title: A bit mask instead of modulo
// Changes: The remainder by a power of two is taken with a bitwise and.
// Why: One instruction for some twenty; the compiler can not know that the distance is a power of two. The scattered threads remain.
// Intensity: unchanged, 1/4 FLOP/B; instructions go down.
#include "ladder_reduce.h"

namespace {

constexpr int kThreads = ladder::kReduceThreads;

__global__ void __launch_bounds__(kThreads) block_sums(const float *x, int64_t n, float *sums) {
    __shared__ float part[kThreads];
    const int thread = threadIdx.x;
    const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + thread;
    part[thread] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int distance = 1; distance < kThreads; distance *= 2) {
        if ((thread & (2 * distance - 1)) == 0) part[thread] += part[thread + distance];
        __syncthreads();
    }
    if (thread == 0) sums[blockIdx.x] = part[0];
}

void launch(const ladder::Reduction &p) {
    ladder::reduce_tree(p, kThreads,
                        [](const float *from, int64_t n, float *to, unsigned blocks) { block_sums<<<blocks, kThreads>>>(from, n, to); });
}

double traffic(double n) { return ladder::tree_traffic(n); }

[[maybe_unused]] const bool added = ladder::add_reduce({3, "bitmask", launch, traffic});

}  // namespace
