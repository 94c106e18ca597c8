// SPDX-License-Identifier: Apache-2.0
// Adds the parts that gemm_kernel left of the tiles whose depth it cut, in the order of the depth, and does to the sums what the product's
// epilogue asks. A thread has four sums, two neighbours in each of two rows, as a consumer thread of gemm_kernel has them; the loads of
// eight parts are under way together. Shared bytes: 8 warps x 640, for turned tiles. Bound: the L2 cache, in which the parts still are.
#pragma once

#include "gemm/epilogue.h"
#include "gemm/sm90/activate.cuh"
#include "gemm/sm90/add_parts.h"
#include "gemm/sm90/arguments.h"
#include "gemm/sm90/producer.cuh"
#include "gemm/sm90/scales.cuh"
#include "numeric.h"

namespace attile::gpu::sm90 {

inline constexpr int kPartsAtOnce = 8;

__device__ __forceinline__ void load_and_add_parts(float4 &sum, const float *from, int64_t next, int count) {
    float4 some[kPartsAtOnce];
#pragma unroll
    for (int i = 0; i < kPartsAtOnce; ++i) {
        if (i < count) some[i] = *reinterpret_cast<const float4 *>(from + i * next);
    }
#pragma unroll
    for (int i = 0; i < kPartsAtOnce; ++i) {
        if (i < count) sum.x += some[i].x, sum.y += some[i].y, sum.z += some[i].z, sum.w += some[i].w;
    }
}

// Of products of 8 bits, in the order of GemmFusion::scale. row and col: of the first of the four.
__device__ __forceinline__ void scale_sums(const GemmArguments &p, float (&value)[4], int64_t row, int64_t col) {
    const auto scale_rows = [&] {
#pragma unroll
        for (int v = 0; v < 4; ++v) {
            if (row + v / 2 * 8 < p.m) value[v] *= gemm_scale(p.row_scale, row + v / 2 * 8);
        }
    };
    if (p.row_scale.data != nullptr && p.columns_first == 0) scale_rows();
    if (p.column_scale.data != nullptr) {
#pragma unroll
        for (int v = 0; v < 4; ++v) {
            if (col + v % 2 < p.n) value[v] *= gemm_scale(p.column_scale, col + v % 2);
        }
    }
    if (p.row_scale.data != nullptr && p.columns_first != 0) scale_rows();
}

// Of a turned tile a warp has eight rows of D by 16 columns, from first_row and first_col on: they are turned, so that a lane stores four
// neighbours of a row.
template <class Epilogue>
__device__ __forceinline__ void add_parts_turned(const GemmArguments &p, const Epilogue &epilogue, const float (&value)[4], int first_row,
                                                 int first_col, int rows, int cols) {
    constexpr int kLine = 16 + 4;  // Floats; four more than a row has, so that what is written at once lies in different banks.
    __shared__ alignas(16) float of_warps[kAddPartsThreads / kWarpThreads][8 * kLine];
    const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
    float *const mine = of_warps[threadIdx.x / kWarpThreads];
#pragma unroll
    for (int v = 0; v < 4; ++v) mine[(lane % 4 * 2 + v % 2) * kLine + lane / 4 + v / 2 * 8] = value[v];
    __syncwarp();
    const int row = first_row + lane / 4, col = first_col + lane % 4 * 4;
    if (row >= rows) return;
    float four[4];
#pragma unroll
    for (int v = 0; v < 4; ++v) four[v] = mine[lane / 4 * kLine + lane % 4 * 4 + v];
    if (p.vectorised != 0) {
        if (col < cols) epilogue.store_vector(row, col, four);
        return;
    }
#pragma unroll
    for (int v = 0; v < 4; ++v) {
        if (col + v < cols) epilogue.store(row, col + v, four[v]);
    }
}

__global__ void ATTILE_LAUNCH_BOUNDS(kAddPartsThreads, 4) gemm_add_parts(const __grid_constant__ GemmAddArguments tile) {
    const GemmArguments &p = tile.product;
    await_kernel_ahead();
    const int elements = tile.rows * tile.columns, slices = elements / 4 / kAddPartsThreads, parts = static_cast<int>(p.parts.divisor);
    const int made = static_cast<int>(blockIdx.x) / slices;  // The tile, of all blocks that made the tiles that were cut.
    const int rank = made % p.multicast, cut = made / p.multicast;
    const int four = (static_cast<int>(blockIdx.x) - made * slices) * kAddPartsThreads + static_cast<int>(threadIdx.x);
    const int64_t next = gemm_partial(1, p.multicast, 0, elements);
    const float *from = p.partial + gemm_partial(int64_t{cut} * parts, p.multicast, rank, elements) + int64_t{four} * 4;
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 1
    for (int left = parts; left > 0; left -= kPartsAtOnce, from += kPartsAtOnce * next) load_and_add_parts(sum, from, next, left);

    const GemmPlace place(p, p.whole + static_cast<uint32_t>(cut), static_cast<uint32_t>(rank));
    const int thread = four % (tile.rows * 2), lane = thread % kWarpThreads;
    const int row = thread / kWarpThreads * 16 + lane / 4, col = four / (tile.rows * 2) * 8 + lane % 4 * 2;
    const bool turned = p.transposed != 0;
    const int64_t tile_row = static_cast<int64_t>(place.a) * tile.rows, tile_col = static_cast<int64_t>(place.b) * tile.columns;
    const int64_t d_row = turned ? tile_col : tile_row, d_col = turned ? tile_row : tile_col;
    const int64_t most = tile.rows + tile.columns;
    const int rows = static_cast<int>(min(p.m - d_row, most)), cols = static_cast<int>(min(p.n - d_col, most));
    GemmOrigin origin;
    origin.set(p, place.batch_x, place.batch_y, d_row, d_col, 0);
    const GemmEpilogue<float, GemmArguments, true, FastActivation> epilogue(p, origin);
    float value[4] = {sum.x, sum.y, sum.z, sum.w};
    if (p.grouped == 0) scale_sums(p, value, tile_row + row, tile_col + col);
#pragma unroll
    for (float &each : value) each *= p.alpha;
    if (turned) {
        add_parts_turned(p, epilogue, value, col - lane % 4 * 2, row - lane / 4, rows, cols);
        return;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float pair[2] = {value[2 * half], value[2 * half + 1]};
        const int r = row + 8 * half;
        if (r >= rows || col >= cols) continue;
        if (p.vectorised != 0) {  // Rows are whole pairs then.
            epilogue.store_vector(r, col, pair);
            continue;
        }
        epilogue.store(r, col, pair[0]);
        if (col + 1 < cols) epilogue.store(r, col + 1, pair[1]);
    }
}

}  // namespace attile::gpu::sm90
