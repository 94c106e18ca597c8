// SPDX-License-Identifier: Apache-2.0
// Step: gemm 7 dynamic
// Title: Shared memory sized from the device's properties
// Changes: The tiles become 32 by depth and depth by 32. The depth is chosen at run time: as much shared memory as a block may have
//   while all blocks that the multiprocessor's threads allow stay resident. One dynamic array holds both tiles.
// Why: A deeper tile means fewer barriers for the same work, and one program suits every device. The reuse of an element does not
//   change, since that is the tile's width; so the gain is small, and it shows that shared memory was not what was short.
// Intensity: unchanged, 8 FLOP/B.
#include "ladder_gemm.h"

namespace {

constexpr int kTile = 32;

__global__ void __launch_bounds__(kTile *kTile) multiply(const float *a, const float *b, float *c, int m, int n, int k, int depth) {
    extern __shared__ float tiles[];
    float *const tile_a = tiles;                  // [kTile][depth]
    float *const tile_b = tiles + kTile * depth;  // [depth][kTile]
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * kTile + y, col = blockIdx.x * kTile + x;
    float sum = 0;
    for (int first = 0; first < k; first += depth) {
        for (int l = x; l < depth; l += kTile)
            tile_a[y * depth + l] = row < m && first + l < k ? a[static_cast<int64_t>(row) * k + first + l] : 0.0f;
        for (int l = y; l < depth; l += kTile)
            tile_b[l * kTile + x] = first + l < k && col < n ? b[static_cast<int64_t>(first + l) * n + col] : 0.0f;
        __syncthreads();
        const int end = min(depth, k - first);
        for (int l = 0; l < end; ++l) sum += tile_a[y * depth + l] * tile_b[l * kTile + x];
        __syncthreads();
    }
    if (row < m && col < n) c[static_cast<int64_t>(row) * n + col] = sum;
}

// The deepest multiple of the tile's width that keeps every block resident.
int choose_depth() {
    cudaDeviceProp device;
    LADDER_CUDA(cudaGetDeviceProperties(&device, 0));
    const size_t resident = std::max(1, device.maxThreadsPerMultiProcessor / (kTile * kTile));
    // The system keeps 1 KB of each block's share on newer devices.
    const size_t share = std::min<size_t>(device.sharedMemPerBlock, device.sharedMemPerMultiprocessor / resident - 1024);
    const size_t row_of_both = 2 * kTile * sizeof(float);
    return std::max(kTile, static_cast<int>(share / row_of_both) / kTile * kTile);
}

void launch(const ladder::Gemm &p) {
    static const int depth = choose_depth();
    const dim3 grid(static_cast<unsigned>(ladder::ceil_div(p.n, kTile)), static_cast<unsigned>(ladder::ceil_div(p.m, kTile)));
    const size_t shared = static_cast<size_t>(2 * kTile * depth) * sizeof(float);
    multiply<<<grid, dim3(kTile, kTile), shared>>>(p.a, p.b, p.c, p.m, p.n, p.k, depth);
}

double traffic(const ladder::Gemm &p) { return ladder::tile_traffic(p, kTile, kTile); }

[[maybe_unused]] const bool added = ladder::add_gemm({7, "dynamic", launch, traffic});

}  // namespace
