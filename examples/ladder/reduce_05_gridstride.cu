// SPDX-License-Identifier: Apache-2.0
// Step: reduction 5 gridstride
// Title: Grid-stride loop, the grid from the occupancy API
// Changes: As many blocks as the device holds at once, which cudaOccupancyMaxActiveBlocksPerMultiprocessor says. A thread first sums
//   every element at its place and a grid's length further on, in a register; then the block folds once.
// Why: The fold in shared memory, with its barriers, is paid once a resident block and no more once for every 256 elements, and blocks
//   neither start nor end while there is work. Partial sums fit one block, so two launches do it all. Several loads of a thread are on
//   their way together.
// Intensity: unchanged, 1/4 FLOP/B; the loads come closer to what memory can do.
#include "ladder_reduce.h"

namespace {

constexpr int kThreads = ladder::kReduceThreads;

__global__ void __launch_bounds__(kThreads) grid_sums(const float *x, int64_t n, float *sums) {
    __shared__ float part[kThreads];
    const int thread = threadIdx.x;
    const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
    float sum = 0;
#pragma unroll 4
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + thread; i < n; i += step) sum += x[i];
    part[thread] = sum;
    __syncthreads();
    for (int distance = kThreads / 2; distance > 0; distance /= 2) {
        if (thread < distance) part[thread] += part[thread + distance];
        __syncthreads();
    }
    if (thread == 0) sums[blockIdx.x] = part[0];
}

int resident_blocks() {
    int blocks = 0;
    LADDER_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, grid_sums, kThreads, 0));
    return std::max(1, blocks) * ladder::attribute(cudaDevAttrMultiProcessorCount);
}

void launch(const ladder::Reduction &p) {
    static const int64_t resident = resident_blocks();
    const unsigned blocks = static_cast<unsigned>(std::min(resident, ladder::ceil_div(p.n, kThreads)));
    grid_sums<<<blocks, kThreads>>>(p.x, p.n, blocks == 1 ? p.result : p.scratch);
    if (blocks > 1) grid_sums<<<1, kThreads>>>(p.scratch, blocks, p.result);
}

double traffic(double n) { return 4 * n; }

[[maybe_unused]] const bool added = ladder::add_reduce({5, "gridstride", launch, traffic});

}  // namespace
