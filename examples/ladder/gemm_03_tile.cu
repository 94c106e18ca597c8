// SPDX-License-Identifier: Apache-2.0
// Step: gemm 3 tile16
// Title: A 16 by 16 tile in shared memory
// Changes: A block loads a 16 by 16 tile of A and one of B into shared memory, and every thread of the block uses both.
// Why: Each element that a block loads is used 16 times: 2 n^3 / 16 global reads in place of 2 n^3. Square matrices whose width is a
//   multiple of the tile only; the launcher pads everything else, which costs copies.
// Intensity: 16 / 4 = 4 FLOP/B.
// Step: gemm 4 tile32
// Title: The same with 32 by 32 tiles
// Changes: The tile's width.
// Why: Twice the reuse for twice the shared memory (8 KB a block) and four times the threads: 1024, the most that a block may have. The
//   kernel now waits for shared memory: two loads there for each multiply-add.
// Intensity: 32 / 4 = 8 FLOP/B.
#include "ladder_gemm.h"

namespace {

template <int kTile>
__global__ void __launch_bounds__(kTile *kTile) multiply(const float *a, const float *b, float *c, int width) {
    __shared__ float tile_a[kTile][kTile];
    __shared__ float tile_b[kTile][kTile];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * kTile + y, col = blockIdx.x * kTile + x;
    float sum = 0;
    for (int first = 0; first < width; first += kTile) {
        tile_a[y][x] = a[static_cast<int64_t>(row) * width + first + x];
        tile_b[y][x] = b[static_cast<int64_t>(first + y) * width + col];
        __syncthreads();  // The tiles are complete.
        for (int l = 0; l < kTile; ++l) sum += tile_a[y][l] * tile_b[l][x];
        __syncthreads();  // Nobody needs them any more.
    }
    c[static_cast<int64_t>(row) * width + col] = sum;
}

template <int kTile>
void launch(const ladder::Gemm &p) {
    const ladder::PaddedSquare square(p, kTile);
    const unsigned tiles = static_cast<unsigned>(square.width() / kTile);
    multiply<kTile><<<dim3(tiles, tiles), dim3(kTile, kTile)>>>(square.a(), square.b(), square.c(), square.width());
    square.finish();
}

template <int kTile>
double traffic(const ladder::Gemm &p) {
    return ladder::tile_traffic(p, kTile, kTile);
}

[[maybe_unused]] const bool added =
    ladder::add_gemm({3, "tile16", launch<16>, traffic<16>}) && ladder::add_gemm({4, "tile32", launch<32>, traffic<32>});

}  // namespace
