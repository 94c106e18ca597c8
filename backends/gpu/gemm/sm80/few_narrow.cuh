// SPDX-License-Identifier: Apache-2.0
// Few rows of A of f16 or bf16 times B of 8 or 4 bits in rows along the depth, by mma.sync. D is computed transposed: an mma's 16 rows are
// columns of D, and its eight columns are rows of A. The order of its depth is free as long as both operands agree on it, so a lane copies
// runs of a row of each into shared memory by cp.async, reads back what it copied itself, and widens it in registers.
//
// Tile: 32 columns by 8 or 16 rows; a warp takes every so many steps of four runs of depth, and the block's warps' sums meet in shared
// memory, in a fixed order. Numbering: lane 4 g + c has columns g, g + 8, g + 16 and g + 24 of B, rows g and g + 8 of A, and run c of a
// step. Where scales change along the depth, a step's sums are scaled and added to others.
// Shared memory of a warp: three stages of both operands and scales, up to 19 KB. Bound: memory. Record: docs/kernels/gemm-narrow.md.
#pragma once

#include <type_traits>

#include "early.h"
#include "gemm/block_scale_at.h"
#include "gemm/epilogue.h"
#include "gemm/sm80/few_narrow.h"
#include "mma/copy_small.cuh"
#include "mma/widen.cuh"

namespace attile::gpu::sm80 {

struct I4 {};
struct U4 {};

template <class Number_, class Element_, int kTiles_, int kRunBytes_>
struct FewNarrow {
    using Number = Number_;
    using Element = Element_;
    static constexpr bool kHasNibbles = std::is_same_v<Number, I4> || std::is_same_v<Number, U4>, kHasNan = std::is_same_v<Number, E4M3>,
                          kHasZeros = std::is_same_v<Number, U4>;
    static constexpr int kTiles = kTiles_;  // Of eight rows.
    static constexpr int kRows = 8 * kTiles, kColumns = kFewNarrowColumns, kStages = 3, kLaneColumns = kColumns / 8;
    static constexpr int kRunBytes = kRunBytes_, kRun = kRunBytes * (kHasNibbles ? 2 : 1), kWords = kRunBytes / 4;
    static constexpr int kDepth = 4 * kRun;          // Of a step.
    static constexpr int kPieces = kRun * 2 / 16;    // Of 16 bytes, that a lane's run of A has.
    static constexpr int kBytesB = kLaneColumns * kLanes * kRunBytes, kBytesA = kTiles * kPieces * kLanes * 16;
    static constexpr int kScaleBytes = kColumns * 4;
    static constexpr int kStageBytes = kBytesB + kBytesA + (kHasZeros ? 2 : 1) * kScaleBytes;
    static constexpr int kWarpBytes = kStages * kStageBytes;
    static_assert(kWarpBytes >= kColumns * kRows * 4, "a warp's sums at the end");
    static_assert(kPieces >= 1, "whole pieces");
};

template <class C>
struct FewNarrowWarp {
    using Element = typename C::Element;
    using Sums = float[2][C::kTiles][4];  // [16 columns][8 rows][]: of an mma.
    const FewNarrowParams &p;
    const int lane, g, c;
    const uint32_t shared;  // Of the warp, in the block's window.
    const char *a[C::kTiles], *b[C::kLaneColumns];
    const float *const scale, *const zero;
    int64_t scaled_column;  // The one whose scale the lane fetches.
    uint32_t nan[C::kLaneColumns] = {};

    __device__ __forceinline__ FewNarrowWarp(const FewNarrowParams &params, uint32_t own, int64_t batch_x, int64_t batch_y,
                                             int64_t first_column)
        : p(params),
          lane(lane_index()),
          g(lane / 4),
          c(lane % 4),
          shared(own),
          scale(scales_of_entry(p.scale, batch_x, batch_y)),
          zero(scales_of_entry(p.zero, batch_x, batch_y)),
          scaled_column(min(first_column + g + 8 * c, p.n - 1)) {
#pragma unroll
        for (int t = 0; t < C::kTiles; ++t)
            a[t] = p.a + batch_x * p.a_batch_x + batch_y * p.a_batch_y + min(static_cast<int64_t>(g + 8 * t), p.m - 1) * p.a_row + c * 16;
#pragma unroll
        for (int r = 0; r < C::kLaneColumns; ++r)
            b[r] = p.b + batch_x * p.b_batch_x + batch_y * p.b_batch_y + min(first_column + g + 8 * r, p.n - 1) * p.b_row +
                   c * C::kRunBytes;
    }
    __device__ __forceinline__ uint32_t stage_at(int stage) const { return shared + stage * C::kStageBytes; }
    __device__ __forceinline__ uint32_t scales_at(int stage) const { return stage_at(stage) + C::kBytesB + C::kBytesA; }

    // Where a row's pieces of 16 bytes are in a stage, so that lanes which load together meet in no bank.
    __device__ __forceinline__ uint32_t piece_of(int row, int piece) const {
        const int turn = C::kPieces == 4 ? piece / 8 | (row & 1) << 1 : C::kPieces == 2 ? row & 1 : 0;
        return static_cast<uint32_t>(C::kBytesB + (row * (4 * C::kPieces) + (piece ^ turn)) * 16);
    }
    // Starts the copies of a step, zeros behind the depth; of none if there is no such step.
    __device__ __forceinline__ void copy(int step, int steps, int stage) const {
        if (step < steps) {
            const int64_t first = static_cast<int64_t>(step) * C::kDepth;
            const int left = static_cast<int>(min(p.k - first, static_cast<int64_t>(C::kDepth))) - c * C::kRun;  // Of the lane's run, may be negative.
            const int run = max(0, min(left, C::kRun));
            const uint32_t to = stage_at(stage);
#pragma unroll
            for (int r = 0; r < C::kLaneColumns; ++r)
                mma::copy_async_of<C::kRunBytes>(to + (r * kLanes + lane) * C::kRunBytes,
                                                 b[r] + static_cast<int64_t>(step) * (4 * C::kRunBytes),
                                                 C::kHasNibbles ? run / 2 : run);
            // Four lanes take 64 bytes of a row at a time, whichever of them needs them. Rows that there are not stay as they are: no other
            // row meets their sums.
#pragma unroll
            for (int t = 0; t < C::kTiles; ++t) {
                if (g + 8 * t >= p.m) continue;
#pragma unroll
                for (int i = 0; i < C::kPieces; ++i) {
                    const int piece = 4 * i + c, there = min(static_cast<int>(min(p.k - first, static_cast<int64_t>(C::kDepth))) - 8 * piece, 8);
                    mma::copy_async(to + piece_of(8 * t + g, piece), a[t] + first * 2 + i * 64, max(0, there) * 2);
                }
            }
            if (p.by_group != 0) {
                if (scale != nullptr) copy_factor(to + C::kBytesB + C::kBytesA, p.scale, scale, first);
                if (C::kHasZeros && zero != nullptr) copy_factor(to + C::kBytesB + C::kBytesA + C::kScaleBytes, p.zero, zero, first);
            }
        }
        mma::copy_commit();
    }
    __device__ __forceinline__ void copy_factor(uint32_t to, const BlockScales &of, const float *entry, int64_t depth) const {
        const float *const from = entry + quotient(static_cast<uint32_t>(scaled_column), of.outer_group) * of.outer +
                                  quotient(static_cast<uint32_t>(depth), of.depth_group) * of.depth;
        mma::copy_async_of<4>(to + (g + 8 * c) * 4, from, 4);
    }

    // sums += the products of a step.
    __device__ __forceinline__ void multiply(int stage, Sums &sums, float (&of_ones)[C::kTiles][4]) {
        const uint32_t from = stage_at(stage);
        uint32_t words[C::kLaneColumns][C::kWords], rows[C::kTiles][C::kPieces][4];
#pragma unroll
        for (int r = 0; r < C::kLaneColumns; ++r) load(words[r], from + (r * kLanes + lane) * C::kRunBytes);
#pragma unroll
        for (int t = 0; t < C::kTiles; ++t)
#pragma unroll
            for (int i = 0; i < C::kPieces; ++i)
                mma::load_shared(rows[t][i], from + piece_of(8 * t + g, c * C::kPieces + i));
#pragma unroll
        for (int w = 0; w < C::kWords; ++w) {
            if constexpr (C::kHasNibbles)
                multiply_nibbles(words, rows, w, sums, of_ones);
            else
                multiply_bytes(words, rows, w, sums);
        }
    }
    // Of a word of each column: four numbers, one mma.
    __device__ __forceinline__ void multiply_bytes(const uint32_t (&words)[C::kLaneColumns][C::kWords],
                                                   const uint32_t (&rows)[C::kTiles][C::kPieces][4], int w, Sums &sums) {
        const mma::Widener<typename C::Number, Element> widen;
        if constexpr (C::kHasNan) {
#pragma unroll
            for (int r = 0; r < C::kLaneColumns; ++r) nan[r] |= mma::nan_bytes(words[r][w]);
        }
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const uint32_t low = words[2 * h][w], high = words[2 * h + 1][w];
            const uint32_t of_b[4] = {widen(low, low, mma::kLowerTwo), widen(high, high, mma::kLowerTwo), widen(low, low, mma::kUpperTwo),
                                      widen(high, high, mma::kUpperTwo)};
#pragma unroll
            for (int t = 0; t < C::kTiles; ++t)
                mma::multiply<Element>(sums[h][t], of_b, rows[t][w / 2][w % 2 * 2], rows[t][w / 2][w % 2 * 2 + 1]);
        }
    }
    // Of a word of each column: eight numbers, of which i and i + 4 are widened as a pair; so A's are paired alike. Two mmas.
    __device__ __forceinline__ void multiply_nibbles(const uint32_t (&words)[C::kLaneColumns][C::kWords],
                                                     const uint32_t (&rows)[C::kTiles][C::kPieces][4], int w, Sums &sums,
                                                     float (&of_ones)[C::kTiles][4]) {
        const mma::NibbleWidener<Element> widen(!C::kHasZeros, C::kHasZeros && zero != nullptr);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            uint32_t of_a[C::kTiles][2];
#pragma unroll
            for (int t = 0; t < C::kTiles; ++t)
#pragma unroll
                for (int e = 0; e < 2; ++e)
                    of_a[t][e] = __byte_perm(rows[t][w][half], rows[t][w][half + 2], e == 0 ? 0x5410u : 0x7632u);
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const uint32_t low = words[2 * h][w], high = words[2 * h + 1][w];
                const uint32_t of_b[4] = {widen(low, 2 * half), widen(high, 2 * half), widen(low, 2 * half + 1),
                                          widen(high, 2 * half + 1)};
#pragma unroll
                for (int t = 0; t < C::kTiles; ++t) mma::multiply<Element>(sums[h][t], of_b, of_a[t][0], of_a[t][1]);
            }
            if constexpr (C::kHasZeros) {
                if (zero == nullptr) continue;
                const uint32_t one = std::is_same_v<Element, F16> ? 0x3c003c00u : 0x3f803f80u, ones[4] = {one, one, one, one};
#pragma unroll
                for (int t = 0; t < C::kTiles; ++t) mma::multiply<Element>(of_ones[t], ones, of_a[t][0], of_a[t][1]);
            }
        }
    }
    static __device__ __forceinline__ void load(uint32_t (&to)[C::kWords], uint32_t from) {
        if constexpr (C::kWords == 4)
            mma::load_shared(to, from);
        else if constexpr (C::kWords == 2)
            asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(from) : "memory");
        else
            asm volatile("ld.shared.b32 %0, [%1];" : "=r"(to[0]) : "r"(from) : "memory");
    }
    static __device__ __forceinline__ float load_factor(uint32_t from) {
        float value;
        asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(from) : "memory");
        return value;
    }

    // total += a step's sums, less what zero points take, times scales.
    __device__ __forceinline__ void add_step(int stage, const Sums &sums, const float (&of_ones)[C::kTiles][4], Sums &total) const {
#pragma unroll
        for (int r = 0; r < C::kLaneColumns; ++r) {
            const uint32_t at = scales_at(stage) + (g + 8 * r) * 4;
            const float factor = scale != nullptr ? load_factor(at) : 1.0f;
            const float less = C::kHasZeros && zero != nullptr ? 8.0f - load_factor(at + C::kScaleBytes) : 0.0f;
#pragma unroll
            for (int t = 0; t < C::kTiles; ++t)
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    float sum = sums[r / 2][t][r % 2 * 2 + e];
                    if constexpr (C::kHasZeros) sum = fused_multiply_add(less, of_ones[t][e], sum);
                    total[r / 2][t][r % 2 * 2 + e] = fused_multiply_add(factor, sum, total[r / 2][t][r % 2 * 2 + e]);
                }
        }
    }
    // Sums of columns with a NaN become one.
    __device__ __forceinline__ void poison(Sums &sums) const {
#pragma unroll
        for (int r = 0; r < C::kLaneColumns; ++r) {
            uint32_t found = nan[r];
            found |= __shfl_xor_sync(~0u, found, 1);
            found |= __shfl_xor_sync(~0u, found, 2);
            if (found == 0) continue;
#pragma unroll
            for (int t = 0; t < C::kTiles; ++t)
#pragma unroll
                for (int e = 0; e < 2; ++e) sums[r / 2][t][r % 2 * 2 + e] = __uint_as_float(0x7fc00000u);
        }
    }
};

template <class C>
__global__ void ATTILE_LAUNCH_BOUNDS(32 * kFewNarrowWarps, 2) gemm_few_narrow(const __grid_constant__ FewNarrowParams p) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    extern __shared__ __align__(16) char block_shared[];
    const uint32_t entry = quotient(blockIdx.x, p.blocks_n), block_n = blockIdx.x - entry * p.blocks_n.divisor;
    const int64_t batch_x = quotient(entry, p.batch_y), batch_y = entry - batch_x * p.batch_y.divisor;
    const int64_t first_column = static_cast<int64_t>(block_n) * C::kColumns;
    const int warp = lane_group_index(), warps = static_cast<int>(blockDim.x) / kLanes;
    FewNarrowWarp<C> own(p, mma::shared_address(block_shared) + warp * C::kWarpBytes, batch_x, batch_y, first_column);
    const int steps = static_cast<int>((p.k + C::kDepth - 1) / C::kDepth);
    typename FewNarrowWarp<C>::Sums sums = {}, total = {};
    float of_ones[C::kTiles][4] = {};
    await_kernel_ahead();
#pragma unroll
    for (int i = 0; i + 1 < C::kStages; ++i) own.copy(warp + i * warps, steps, i);
    int stage = 0;
#pragma unroll 1
    for (int step = warp; step < steps; step += warps) {
        mma::copy_wait<C::kStages - 2>();
        __syncwarp();  // A and scales are other lanes' copies, too, and the last step's have been read.
        own.copy(step + (C::kStages - 1) * warps, steps, stage == 0 ? C::kStages - 1 : stage - 1);
        own.multiply(stage, sums, of_ones);
        if (p.by_group != 0) {
            own.add_step(stage, sums, of_ones, total);
#pragma unroll
            for (int h = 0; h < 2; ++h)
#pragma unroll
                for (int t = 0; t < C::kTiles; ++t)
#pragma unroll
                    for (int e = 0; e < 4; ++e) sums[h][t][e] = of_ones[t][e] = 0;
        }
        if (++stage == C::kStages) stage = 0;
    }
    if (p.by_group == 0) {
#pragma unroll
        for (int h = 0; h < 2; ++h)
#pragma unroll
            for (int t = 0; t < C::kTiles; ++t)
#pragma unroll
                for (int e = 0; e < 4; ++e) total[h][t][e] = sums[h][t][e];
    }
    if constexpr (C::kHasNan) own.poison(total);
    mma::copy_wait<0>();
    __syncthreads();  // Nobody reads stages any more.
    float *const meet = reinterpret_cast<float *>(block_shared);
    constexpr int kSums = C::kColumns * C::kRows;
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
        for (int t = 0; t < C::kTiles; ++t)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                meet[warp * kSums + (t * 8 + own.c * 2 + e % 2) * C::kColumns + h * 16 + e / 2 * 8 + own.g] = total[h][t][e];
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kSums; i += static_cast<int>(blockDim.x)) {
        const int row = i / C::kColumns;
        const int64_t column = first_column + i % C::kColumns;
        if (row >= p.m || column >= p.n) continue;
        float value = 0;
        for (int w = 0; w < warps; ++w) value += meet[w * kSums + i];
        value *= 1.0f / mma::kWidenedUnit<typename C::Number, typename C::Element>;
        if (own.scale != nullptr && p.by_group == 0) value *= scale_at(p.scale, own.scale, column, 0);
        GemmOrigin origin;
        origin.set(p, batch_x, batch_y, row, column, 0);
        const GemmEpilogue<float, FewNarrowParams> epilogue(p, origin);
        epilogue.store(0, 0, p.alpha * value);
    }
#endif
}

}  // namespace attile::gpu::sm80
