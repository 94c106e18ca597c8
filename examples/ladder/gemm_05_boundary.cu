// SPDX-License-Identifier: Apache-2.0
// Step: gemm 5 boundary
// Title: Boundary checks, so that any width will do
// Changes: Loads outside the matrix give 0, stores outside it are left out. The kernel is still for squares.
// Why: A zero adds nothing to a sum, so the inner loop needs no test. A thread outside the matrix must go on all the same: it loads for
//   others and meets them at the barriers. Nothing gets faster; padding and its copies go away, at the price of a comparison a load.
// Intensity: unchanged, 8 FLOP/B.
#include "ladder_gemm.h"

namespace {

constexpr int kTile = 32;

__global__ void __launch_bounds__(kTile *kTile) multiply(const float *a, const float *b, float *c, int width) {
    __shared__ float tile_a[kTile][kTile];
    __shared__ float tile_b[kTile][kTile];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * kTile + y, col = blockIdx.x * kTile + x;
    float sum = 0;
    for (int first = 0; first < width; first += kTile) {
        tile_a[y][x] = row < width && first + x < width ? a[static_cast<int64_t>(row) * width + first + x] : 0.0f;
        tile_b[y][x] = first + y < width && col < width ? b[static_cast<int64_t>(first + y) * width + col] : 0.0f;
        __syncthreads();
        for (int l = 0; l < kTile; ++l) sum += tile_a[y][l] * tile_b[l][x];
        __syncthreads();
    }
    if (row < width && col < width) c[static_cast<int64_t>(row) * width + col] = sum;
}

void launch(const ladder::Gemm &p) {
    const ladder::PaddedSquare square(p, 1);  // Rectangles are still embedded in a square.
    const unsigned tiles = static_cast<unsigned>(ladder::ceil_div(square.width(), kTile));
    multiply<<<dim3(tiles, tiles), dim3(kTile, kTile)>>>(square.a(), square.b(), square.c(), square.width());
    square.finish();
}

double traffic(const ladder::Gemm &p) { return ladder::tile_traffic(p, kTile, kTile); }

[[maybe_unused]] const bool added = ladder::add_gemm({5, "boundary", launch, traffic});

}  // namespace
