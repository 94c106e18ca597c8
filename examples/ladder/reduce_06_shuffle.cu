// SPDX-License-Identifier: Apache-2.0
// Step: reduction 6 shuffle
// Title: Warp shuffles
// Changes: Within a warp partial sums pass from register to register; shared memory holds one sum a warp, and one barrier is left of
//   nine.
// Why: A shuffle needs no barrier and no store before the load. The fold was a small share already, since a block folds once, so little
//   can be gained at this size; it counts where rows are short and the fold comes often.
// Intensity: unchanged, 1/4 FLOP/B.
#include "ladder_reduce.h"

namespace {

constexpr int kThreads = ladder::kReduceThreads, kWarps = kThreads / 32;

__device__ float warp_sum(float value) {
    for (int distance = 16; distance > 0; distance /= 2) value += __shfl_down_sync(0xFFFFFFFFu, value, distance);
    return value;  // Right in lane 0.
}

__global__ void __launch_bounds__(kThreads) grid_sums(const float *x, int64_t n, float *sums) {
    __shared__ float part[kWarps];
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
    float sum = 0;
#pragma unroll 4
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + thread; i < n; i += step) sum += x[i];
    sum = warp_sum(sum);
    if (lane == 0) part[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = warp_sum(lane < kWarps ? part[lane] : 0.0f);
        if (lane == 0) sums[blockIdx.x] = sum;
    }
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

[[maybe_unused]] const bool added = ladder::add_reduce({6, "shuffle", launch, traffic});

}  // namespace
