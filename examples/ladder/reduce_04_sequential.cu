// SPDX-License-Identifier: Apache-2.0
// Step: reduction 4 sequential
// Title: Sequential addressing
// Changes: The distance starts at half the block and halves; the threads that work are the first ones.
// Why: Whole warps fall idle at once in place of lanes in every warp: of 8 warps 4, 2, 1 have work at the first levels. And
//   neighbouring threads use neighbouring words, so that there are no bank conflicts, which distances of 2, 4, 8 floats have.
// Intensity: unchanged, 1/4 FLOP/B.
#include "ladder_reduce.h"

namespace {

constexpr int kThreads = ladder::kReduceThreads;

__global__ void __launch_bounds__(kThreads) block_sums(const float *x, int64_t n, float *sums) {
    __shared__ float part[kThreads];
    const int thread = threadIdx.x;
    const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + thread;
    part[thread] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int distance = kThreads / 2; distance > 0; distance /= 2) {
        if (thread < distance) part[thread] += part[thread + distance];
        __syncthreads();
    }
    if (thread == 0) sums[blockIdx.x] = part[0];
}

void launch(const ladder::Reduction &p) {
    ladder::reduce_tree(p, kThreads,
                        [](const float *from, int64_t n, float *to, unsigned blocks) { block_sums<<<blocks, kThreads>>>(from, n, to); });
}

double traffic(double n) { return ladder::tree_traffic(n); }

[[maybe_unused]] const bool added = ladder::add_reduce({4, "sequential", launch, traffic});

}  // namespace
