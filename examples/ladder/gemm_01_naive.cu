// SPDX-License-Identifier: Apache-2.0
// Step: gemm 1 naive
// Title: One thread, one element of C
// Changes: Nothing yet. Each thread walks a row of A and a column of B. Threads that are neighbours in a warp take neighbouring rows.
// Why: It is the definition. A multiply-add costs two loads, and the 32 rows that a warp reads lie k floats apart: every load of A and
//   every store of C touches 32 different lines of memory.
// Intensity: 2 FLOP for two floats of 4 bytes: 1/4 FLOP/B.
#include "ladder_gemm.h"

namespace {

__global__ void multiply(const float *a, const float *b, float *c, int m, int n, int k) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;  // The fast thread index runs along rows: that is the fault.
    const int col = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || col >= n) return;
    float sum = 0;
    for (int l = 0; l < k; ++l) sum += a[static_cast<int64_t>(row) * k + l] * b[static_cast<int64_t>(l) * n + col];
    c[static_cast<int64_t>(row) * n + col] = sum;
}

void launch(const ladder::Gemm &p) {
    const dim3 block(16, 16);
    const dim3 grid(static_cast<unsigned>(ladder::ceil_div(p.m, 16)), static_cast<unsigned>(ladder::ceil_div(p.n, 16)));
    multiply<<<grid, block>>>(p.a, p.b, p.c, p.m, p.n, p.k);
}

double traffic(const ladder::Gemm &p) { return ladder::tile_traffic(p, 1, 1); }

[[maybe_unused]] const bool added = ladder::add_gemm({1, "naive", launch, traffic});

}  // namespace
