// SPDX-License-Identifier: Apache-2.0
// Step: reduction 2 modulo
// Title: In shared memory, interleaved, with modulo
// Changes: A block of 256 threads loads 256 elements and folds them in shared memory. At each level a thread works if its number is a
//   multiple of twice the distance. One partial sum a block is left for the next launch.
// Why: The input is read once, and eight levels cost one launch. But the working threads are scattered: all 8 warps run to the end for
//   ever fewer of their lanes, and the remainder of a division by a number not known at compile time is some twenty instructions.
// Intensity: n additions for 4 n bytes: 1/4 FLOP/B, the definition's own.
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
        if (thread % (2 * distance) == 0) part[thread] += part[thread + distance];
        __syncthreads();
    }
    if (thread == 0) sums[blockIdx.x] = part[0];
}

void launch(const ladder::Reduction &p) {
    ladder::reduce_tree(p, kThreads,
                        [](const float *from, int64_t n, float *to, unsigned blocks) { block_sums<<<blocks, kThreads>>>(from, n, to); });
}

double traffic(double n) { return ladder::tree_traffic(n); }

[[maybe_unused]] const bool added = ladder::add_reduce({2, "modulo", launch, traffic});

}  // namespace
