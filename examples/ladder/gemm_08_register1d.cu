// SPDX-License-Identifier: Apache-2.0
// Step: gemm 8 register1d
// Title: Eight outputs a thread, in a column
// Changes: A block makes 64 by 64 of C with 512 threads, 8 deep; a thread keeps 8 sums of one column in registers.
// Why: An element of B is read once from shared memory and used for 8 multiply-adds: 9 shared loads for 8 of them in place of 16. The
//   wider tile also halves what is asked of global memory.
// Intensity: 64 / 4 = 16 FLOP/B.
#include "ladder_gemm.h"

namespace {

constexpr int kTile = 64, kDepth = 8, kRows = 8, kThreads = kTile * kTile / kRows;
static_assert(kThreads == kTile * kDepth, "each thread loads one element of either tile");

__global__ void __launch_bounds__(kThreads) multiply(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ float tile_a[kTile][kDepth];
    __shared__ float tile_b[kDepth][kTile];
    const int thread = threadIdx.x;
    const int x = thread % kTile, y = thread / kTile * kRows;  // This thread's column and first row in the tile.
    const int top = blockIdx.y * kTile, left = blockIdx.x * kTile;
    const int a_row = thread / kDepth, a_col = thread % kDepth, b_row = thread / kTile;
    float sum[kRows] = {};
    for (int first = 0; first < k; first += kDepth) {
        tile_a[a_row][a_col] = top + a_row < m && first + a_col < k ? a[static_cast<int64_t>(top + a_row) * k + first + a_col] : 0.0f;
        tile_b[b_row][x] = first + b_row < k && left + x < n ? b[static_cast<int64_t>(first + b_row) * n + left + x] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int l = 0; l < kDepth; ++l) {
            const float element = tile_b[l][x];
#pragma unroll
            for (int i = 0; i < kRows; ++i) sum[i] += tile_a[y + i][l] * element;
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i)
        if (top + y + i < m && left + x < n) c[static_cast<int64_t>(top + y + i) * n + left + x] = sum[i];
}

void launch(const ladder::Gemm &p) {
    const dim3 grid(static_cast<unsigned>(ladder::ceil_div(p.n, kTile)), static_cast<unsigned>(ladder::ceil_div(p.m, kTile)));
    multiply<<<grid, kThreads>>>(p.a, p.b, p.c, p.m, p.n, p.k);
}

double traffic(const ladder::Gemm &p) { return ladder::tile_traffic(p, kTile, kTile); }

[[maybe_unused]] const bool added = ladder::add_gemm({8, "register1d", launch, traffic});

}  // namespace
