// SPDX-License-Identifier: Apache-2.0
// Step: gemm 9 register2d
// Title: Eight by eight outputs a thread
// Changes: A block makes 128 by 128 of C with 256 threads; a thread keeps 64 sums. The tile of A is stored with its depth first.
// Why: 8 elements of A and 8 of B are read for 64 multiply-adds: 16 shared loads in place of 72. This is the step that takes the kernel
//   from waiting for shared memory towards arithmetic, and it is why fast kernels look as they do.
// Intensity: 128 / 4 = 32 FLOP/B.
#include "ladder_gemm.h"

namespace {

constexpr int kTile = 128, kDepth = 8, kSide = 8, kThreads = (kTile / kSide) * (kTile / kSide);

__global__ void __launch_bounds__(kThreads, 2) multiply(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ float tile_a[kDepth][kTile];
    __shared__ float tile_b[kDepth][kTile];
    const int thread = threadIdx.x;
    const int x = thread % (kTile / kSide) * kSide, y = thread / (kTile / kSide) * kSide;
    const int top = blockIdx.y * kTile, left = blockIdx.x * kTile;
    float sum[kSide][kSide] = {};
    for (int first = 0; first < k; first += kDepth) {
        for (int i = thread; i < kTile * kDepth; i += kThreads) {
            const int row = i / kDepth, depth = i % kDepth;
            tile_a[depth][row] = top + row < m && first + depth < k ? a[static_cast<int64_t>(top + row) * k + first + depth] : 0.0f;
        }
        for (int i = thread; i < kTile * kDepth; i += kThreads) {
            const int depth = i / kTile, col = i % kTile;
            tile_b[depth][col] = first + depth < k && left + col < n ? b[static_cast<int64_t>(first + depth) * n + left + col] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int l = 0; l < kDepth; ++l) {
            float from_a[kSide], from_b[kSide];
#pragma unroll
            for (int i = 0; i < kSide; ++i) from_a[i] = tile_a[l][y + i], from_b[i] = tile_b[l][x + i];
#pragma unroll
            for (int i = 0; i < kSide; ++i)
#pragma unroll
                for (int j = 0; j < kSide; ++j) sum[i][j] += from_a[i] * from_b[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < kSide; ++i)
#pragma unroll
        for (int j = 0; j < kSide; ++j)
            if (top + y + i < m && left + x + j < n) c[static_cast<int64_t>(top + y + i) * n + left + x + j] = sum[i][j];
}

void launch(const ladder::Gemm &p) {
    const dim3 grid(static_cast<unsigned>(ladder::ceil_div(p.n, kTile)), static_cast<unsigned>(ladder::ceil_div(p.m, kTile)));
    multiply<<<grid, kThreads>>>(p.a, p.b, p.c, p.m, p.n, p.k);
}

double traffic(const ladder::Gemm &p) { return ladder::tile_traffic(p, kTile, kTile); }

[[maybe_unused]] const bool added = ladder::add_gemm({9, "register2d", launch, traffic});

}  // namespace
