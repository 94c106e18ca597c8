// SPDX-License-Identifier: Apache-2.0
// Step: gemm 10 vector
// Title: 128-bit loads
// Changes: Four floats a load, from global memory and from shared memory. A thread's 8 columns become two groups of 4, half a tile
//   apart, and its rows likewise; the rows of the stored A get a pad of 4 floats.
// Why: A quarter of the load instructions, each of which took a slot that a multiply-add could have had. Eight neighbouring columns a
//   thread put four threads on the same banks; groups of four do not. Where k, n or a pointer is no multiple of 4 floats the loads fall
//   back to single ones.
// Intensity: unchanged, 32 FLOP/B; instructions go down.
#include "ladder_gemm.h"

namespace {

constexpr int kTile = 128, kDepth = 8, kThreads = 256, kPad = 4;

// Four floats of a row; those beyond its end are 0. Aligned: the row's length is a multiple of 4, so they are all there or none is.
__device__ float4 load4(const float *matrix, int row, int col, int rows, int cols, bool aligned) {
    float4 result = make_float4(0, 0, 0, 0);
    if (row >= rows || col >= cols) return result;
    const float *from = matrix + static_cast<int64_t>(row) * cols + col;
    if (aligned) return *reinterpret_cast<const float4 *>(from);
    result.x = from[0];
    if (col + 1 < cols) result.y = from[1];
    if (col + 2 < cols) result.z = from[2];
    if (col + 3 < cols) result.w = from[3];
    return result;
}

__device__ void store4(float *matrix, int row, int col, int rows, int cols, bool aligned, float4 value) {
    if (row >= rows || col >= cols) return;
    float *to = matrix + static_cast<int64_t>(row) * cols + col;
    if (aligned) {
        *reinterpret_cast<float4 *>(to) = value;
        return;
    }
    to[0] = value.x;
    if (col + 1 < cols) to[1] = value.y;
    if (col + 2 < cols) to[2] = value.z;
    if (col + 3 < cols) to[3] = value.w;
}

__global__ void __launch_bounds__(kThreads, 2)
    multiply(const float *a, const float *b, float *c, int m, int n, int k, bool aligned_a, bool aligned_n) {
    __shared__ alignas(16) float tile_a[kDepth][kTile + kPad];
    __shared__ alignas(16) float tile_b[kDepth][kTile];
    const int thread = threadIdx.x, x = thread % 16 * 4, y = thread / 16 * 4;
    const int top = blockIdx.y * kTile, left = blockIdx.x * kTile;
    const int a_row = thread / 2, a_depth = thread % 2 * 4, b_depth = thread / 32, b_col = thread % 32 * 4;
    float sum[8][8] = {};
    for (int first = 0; first < k; first += kDepth) {
        const float4 va = load4(a, top + a_row, first + a_depth, m, k, aligned_a);
        const float4 vb = load4(b, first + b_depth, left + b_col, k, n, aligned_n);
        tile_a[a_depth][a_row] = va.x;
        tile_a[a_depth + 1][a_row] = va.y;
        tile_a[a_depth + 2][a_row] = va.z;
        tile_a[a_depth + 3][a_row] = va.w;
        *reinterpret_cast<float4 *>(&tile_b[b_depth][b_col]) = vb;
        __syncthreads();
#pragma unroll
        for (int l = 0; l < kDepth; ++l) {
            const float4 a0 = *reinterpret_cast<const float4 *>(&tile_a[l][y]);
            const float4 a1 = *reinterpret_cast<const float4 *>(&tile_a[l][y + kTile / 2]);
            const float4 b0 = *reinterpret_cast<const float4 *>(&tile_b[l][x]);
            const float4 b1 = *reinterpret_cast<const float4 *>(&tile_b[l][x + kTile / 2]);
            const float from_a[8] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w};
            const float from_b[8] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j) sum[i][j] += from_a[i] * from_b[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int row = top + y + i % 4 + i / 4 * (kTile / 2);
        store4(c, row, left + x, m, n, aligned_n, make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]));
        store4(c, row, left + x + kTile / 2, m, n, aligned_n, make_float4(sum[i][4], sum[i][5], sum[i][6], sum[i][7]));
    }
}

bool on_16_bytes(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

void launch(const ladder::Gemm &p) {
    const dim3 grid(static_cast<unsigned>(ladder::ceil_div(p.n, kTile)), static_cast<unsigned>(ladder::ceil_div(p.m, kTile)));
    const bool aligned_a = p.k % 4 == 0 && on_16_bytes(p.a), aligned_n = p.n % 4 == 0 && on_16_bytes(p.b) && on_16_bytes(p.c);
    multiply<<<grid, kThreads>>>(p.a, p.b, p.c, p.m, p.n, p.k, aligned_a, aligned_n);
}

double traffic(const ladder::Gemm &p) { return ladder::tile_traffic(p, kTile, kTile); }

[[maybe_unused]] const bool added = ladder::add_gemm({10, "vector", launch, traffic});

}  // namespace
