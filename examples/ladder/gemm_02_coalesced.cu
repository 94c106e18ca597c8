// SPDX-License-Identifier: Apache-2.0
// Step: gemm 2 coalesced
// Title: Neighbouring threads, neighbouring addresses
// Changes: The fast thread index runs along the columns of C instead of its rows.
// Why: The 32 floats that a warp reads of B, and writes to C, now lie side by side: one request of 128 bytes in place of 32 requests.
//   The reads of A are the same address for half a warp, which is one request too. What a thread asks for has not changed, only how
//   many transactions it takes.
// Intensity: still 1/4 FLOP/B asked for; fewer lines moved for it.
#include "ladder_gemm.h"

namespace {

__global__ void multiply(const float *a, const float *b, float *c, int m, int n, int k) {
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || col >= n) return;
    float sum = 0;
    for (int l = 0; l < k; ++l) sum += a[static_cast<int64_t>(row) * k + l] * b[static_cast<int64_t>(l) * n + col];
    c[static_cast<int64_t>(row) * n + col] = sum;
}

void launch(const ladder::Gemm &p) {
    const dim3 block(16, 16);
    const dim3 grid(static_cast<unsigned>(ladder::ceil_div(p.n, 16)), static_cast<unsigned>(ladder::ceil_div(p.m, 16)));
    multiply<<<grid, block>>>(p.a, p.b, p.c, p.m, p.n, p.k);
}

double traffic(const ladder::Gemm &p) { return ladder::tile_traffic(p, 1, 1); }

[[maybe_unused]] const bool added = ladder::add_gemm({2, "coalesced", launch, traffic});

}  // namespace
