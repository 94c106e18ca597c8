// SPDX-License-Identifier: Apache-2.0
// Step: gemm 6 rectangular
// Title: A j by k, B k by l, C j by l
// Changes: Three extents in place of one width. Each matrix has its own distance between rows (k for A, l for B and C), and each bound
//   is compared with the extent that it belongs to.
// Why: Real matrices are not square. The usual faults are here: B indexed with A's row length, the loop run to the wrong extent, the
//   grid built with rows and columns exchanged. All three are invisible as long as j = k = l.
// Intensity: unchanged, 8 FLOP/B.
#include "ladder_gemm.h"

namespace {

constexpr int kTile = 32;

__global__ void __launch_bounds__(kTile *kTile) multiply(const float *a, const float *b, float *c, int j, int k, int l) {
    __shared__ float tile_a[kTile][kTile];
    __shared__ float tile_b[kTile][kTile];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * kTile + y, col = blockIdx.x * kTile + x;
    float sum = 0;
    for (int first = 0; first < k; first += kTile) {
        tile_a[y][x] = row < j && first + x < k ? a[static_cast<int64_t>(row) * k + first + x] : 0.0f;
        tile_b[y][x] = first + y < k && col < l ? b[static_cast<int64_t>(first + y) * l + col] : 0.0f;
        __syncthreads();
        for (int depth = 0; depth < kTile; ++depth) sum += tile_a[y][depth] * tile_b[depth][x];
        __syncthreads();
    }
    if (row < j && col < l) c[static_cast<int64_t>(row) * l + col] = sum;
}

void launch(const ladder::Gemm &p) {
    const dim3 grid(static_cast<unsigned>(ladder::ceil_div(p.n, kTile)), static_cast<unsigned>(ladder::ceil_div(p.m, kTile)));
    multiply<<<grid, dim3(kTile, kTile)>>>(p.a, p.b, p.c, p.m, p.k, p.n);
}

double traffic(const ladder::Gemm &p) { return ladder::tile_traffic(p, kTile, kTile); }

[[maybe_unused]] const bool added = ladder::add_gemm({6, "rectangular", launch, traffic});

}  // namespace
