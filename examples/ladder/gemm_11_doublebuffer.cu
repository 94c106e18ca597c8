// SPDX-License-Identifier: Apache-2.0
// Step: gemm 11 doublebuffer
// Title: Double buffer
// Changes: Two sets of tiles. While one is multiplied, the next is on its way from global memory to registers, and from there into the
//   other set.
// Why: The loads' latency passes behind 64 multiply-adds a depth instead of in front of them, and one barrier a tile is enough in place
//   of two. No cp.async: Pascal has none.
// Intensity: unchanged, 32 FLOP/B; waiting goes down.
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

// The next tiles on their way through registers.
struct Stage {
    float4 a, b;
};

__global__ void __launch_bounds__(kThreads, 2)
    multiply(const float *a, const float *b, float *c, int m, int n, int k, bool aligned_a, bool aligned_n) {
    __shared__ alignas(16) float tile_a[2][kDepth][kTile + kPad];
    __shared__ alignas(16) float tile_b[2][kDepth][kTile];
    const int thread = threadIdx.x, x = thread % 16 * 4, y = thread / 16 * 4;
    const int top = blockIdx.y * kTile, left = blockIdx.x * kTile;
    const int a_row = thread / 2, a_depth = thread % 2 * 4, b_depth = thread / 32, b_col = thread % 32 * 4;
    const auto load = [&](int first) {
        return Stage{load4(a, top + a_row, first + a_depth, m, k, aligned_a), load4(b, first + b_depth, left + b_col, k, n, aligned_n)};
    };
    const auto store = [&](int buffer, const Stage &stage) {
        tile_a[buffer][a_depth][a_row] = stage.a.x;
        tile_a[buffer][a_depth + 1][a_row] = stage.a.y;
        tile_a[buffer][a_depth + 2][a_row] = stage.a.z;
        tile_a[buffer][a_depth + 3][a_row] = stage.a.w;
        *reinterpret_cast<float4 *>(&tile_b[buffer][b_depth][b_col]) = stage.b;
    };
    float sum[8][8] = {};
    store(0, load(0));
    __syncthreads();
    int buffer = 0;
    for (int first = 0; first < k; first += kDepth, buffer ^= 1) {
        const bool more = first + kDepth < k;
        Stage next{};
        if (more) next = load(first + kDepth);
#pragma unroll
        for (int l = 0; l < kDepth; ++l) {
            const float4 a0 = *reinterpret_cast<const float4 *>(&tile_a[buffer][l][y]);
            const float4 a1 = *reinterpret_cast<const float4 *>(&tile_a[buffer][l][y + kTile / 2]);
            const float4 b0 = *reinterpret_cast<const float4 *>(&tile_b[buffer][l][x]);
            const float4 b1 = *reinterpret_cast<const float4 *>(&tile_b[buffer][l][x + kTile / 2]);
            const float from_a[8] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w};
            const float from_b[8] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j) sum[i][j] += from_a[i] * from_b[j];
        }
        if (more) store(buffer ^ 1, next);
        __syncthreads();  // The other buffer is complete, and nobody reads this one any more.
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

[[maybe_unused]] const bool added = ladder::add_gemm({11, "doublebuffer", launch, traffic});

}  // namespace
