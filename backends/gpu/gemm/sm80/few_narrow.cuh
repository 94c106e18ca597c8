// SPDX-License-Identifier: Apache-2.0
// Few rows of A of f16 or bf16 times B of 8 or 4 bits in rows along the depth, by mma.sync. D is computed transposed: an mma's 16 rows are
// columns of D, and its eight columns are rows of A. The order of its depth is free as long as both operands agree on it: a lane multiplies
// 16 contiguous bytes of a column, or 8 or 4 where scales change within those. They come to shared memory by cp.async, and are widened in
// registers.
//
// Tile: 32 columns by 8 or 16 rows of a warp, or of two warps side by side; the block's other warps share the depth, 64 bytes of a column
// at a time, and their sums meet in shared memory, in a fixed order. Numbering: lane 4 g + c has columns g, g + 8, g + 16 and g + 24 of B,
// rows g and g + 8 of A, and run c of a part of a step, whose sums are scaled and added to the others. Shared memory of a warp: three or
// four stages of both operands and factors, 13 to 21 KB. Bound: memory. Record: docs/kernels/gemm-narrow.md.
#pragma once

#include <type_traits>

#include "early.h"
#include "gemm/block_scale_at.h"
#include "gemm/epilogue.h"
#include "gemm/sm80/few_narrow_shape.h"
#include "mma/copy_small.cuh"
#include "mma/widen.cuh"

namespace attile::gpu::sm80 {

template <class C>
struct FewNarrowWarp {
    using Element = typename C::Element;
    using Sums = float[2][C::kTiles][4];  // [16 columns][8 rows][]: of an mma.
    using Widen = std::conditional_t<C::kHasNibbles, mma::NibbleWidener<Element>,
                                     mma::Widener<std::conditional_t<C::kHasNibbles, I8, typename C::Number>, Element>>;
    const FewNarrowParams &p;
    const int lane, g, c, group, groups, shares, steps, whole_steps;  // Its columns' number in the block; groups of columns, and of warps.
    const float *const scale, *const zero;                            // Of the batch entry.
    const char *a[C::kTiles], *b[C::kLaneColumns];                    // Where the next step to copy is,
    bool copies[C::kTiles];                                           // (does the lane copy such rows of A?)
    int next_step;                                                    // and its number.
    const float *scale_column, *zero_column;                          // Of the column whose factors the lane copies.
    uint32_t copied_b, read_b, copied_a, read_a, factors;             // In stage 0, in the block's window.
    uint32_t nan[C::kLaneColumns] = {};
    const Widen widen;

    static __device__ __forceinline__ Widen widener(const float *zero) {
        if constexpr (C::kHasNibbles)
            return Widen(!C::kHasZeros, C::kHasZeros && zero != nullptr);
        else
            return Widen();
    }
    __device__ __forceinline__ FewNarrowWarp(const FewNarrowParams &params, uint32_t shared, int64_t batch_x, int64_t batch_y,
                                             int64_t block_column)
        : p(params),
          lane(lane_index()),
          g(lane / 4),
          c(lane % 4),
          group(lane_group_index() & (p.groups - 1)),
          groups(p.groups),
          shares((static_cast<int>(blockDim.x) / kLanes) >> (p.groups - 1)),
          steps(static_cast<int>((p.k + C::kDepth - 1) / C::kDepth)),
          whole_steps(static_cast<int>(p.k / C::kDepth)),
          scale(scales_of_entry(p.scale, batch_x, batch_y)),
          zero(scales_of_entry(p.zero, batch_x, batch_y)),
          next_step(share()),
          widen(widener(zero)) {
        const int64_t first_column = block_column + group * C::kColumns;
#pragma unroll
        for (int t = 0; t < C::kTiles; ++t) {
            const int row = g + 8 * (t + first_tile());
            copies[t] = row < static_cast<int>(p.m) && (t == 0 ? C::kTiles > 1 || group == 0 : groups == 1);
            a[t] = p.a + batch_x * p.a_batch_x + batch_y * p.a_batch_y + (copies[t] ? row : 0) * p.a_row + c * 16 +
                   static_cast<int64_t>(next_step) * C::kRowBytes;
        }
#pragma unroll
        for (int r = 0; r < C::kLaneColumns; ++r)
            b[r] = p.b + batch_x * p.b_batch_x + batch_y * p.b_batch_y + min(first_column + g + 8 * r, p.n - 1) * p.b_row + c * 16 +
                   static_cast<int64_t>(next_step) * 64;
        const uint32_t column = static_cast<uint32_t>(min(first_column + g + 8 * c, p.n - 1));
        scale_column = scale != nullptr ? scale + quotient(column, p.scale.outer_group) * p.scale.outer : nullptr;
        zero_column = zero != nullptr ? zero + quotient(column, p.zero.outer_group) * p.zero.outer : nullptr;
        // Lanes that load together meet in no bank: a column's halves of 32 bytes change places, and a row's pieces of 16.
        const uint32_t own = shared + static_cast<uint32_t>(lane_group_index() * (C::kStages * C::kStageB)) + g * 64;
        const int half = g >> 1 & 1, flip = C::kPieces == 4 ? (g & 1) * 7 : (g & 1) * 5;
        copied_b = mma::renewed(own + (c ^ half << 1) * 16);
        // A run's bytes of a part: 16, 8 or 4 of each lane.
        read_b = C::kParts == 1 ? copied_b : mma::renewed(own + half * 32 + c * (C::kWords * 4));
        const uint32_t rows = shared +
                              static_cast<uint32_t>(shares * groups * C::kStages * C::kStageB + share() * (C::kStages * C::kBytesA)) +
                              g * C::kRowBytes;
        copied_a = mma::renewed(rows + first_tile() * 8 * C::kRowBytes + (c ^ flip) * 16);
        read_a = mma::renewed(rows + ((c * C::kRunPieces) ^ flip ^ (C::kPieces == 4 && C::kParts == 1 ? c >> 1 : 0)) * 16);
        factors = mma::renewed(own - g * 64 + C::kBytesB + g * 4);
    }
    // Of two warps that share rows of A, each copies one of two tiles, or one copies all.
    __device__ __forceinline__ int first_tile() const { return C::kTiles > 1 && groups > 1 ? group : 0; }
    __device__ __forceinline__ int share() const { return lane_group_index() >> (groups - 1); }
    // All copies of the warps that share rows of A are there, and what was in the stage of the next copies has been read.
    __device__ __forceinline__ void meet() const {
        if (groups == 1)
            __syncwarp();
        else
            asm volatile("barrier.sync.aligned %0, %1;" ::"r"(1 + share()), "r"(groups * kLanes) : "memory");
    }

    // Starts the copies of the next step into a stage, zeros behind the depth; of none if there is no such step.
    __device__ __forceinline__ void copy(int stage) {
        if (next_step < whole_steps)
            copy_step<true>(stage);
        else if (next_step < steps)
            copy_step<false>(stage);
        mma::copy_commit();
        next_step += shares;
#pragma unroll
        for (int t = 0; t < C::kTiles; ++t) a[t] += shares * C::kRowBytes;
#pragma unroll
        for (int r = 0; r < C::kLaneColumns; ++r) b[r] += shares * 64;
    }
    template <bool kWhole>
    __device__ __forceinline__ void copy_step(int stage) const {
        const int left = kWhole ? C::kDepth : static_cast<int>(p.k) - next_step * C::kDepth;
        const uint32_t to_b = copied_b + stage * C::kStageB, to_a = copied_a + stage * C::kBytesA;
#pragma unroll
        for (int r = 0; r < C::kLaneColumns; ++r) {
            const int run = max(0, min(left - c * (C::kDepth / 4), C::kDepth / 4));
            mma::copy_async_of<16, kWhole>(to_b + r * 512, b[r], C::kHasNibbles ? run / 2 : run);
        }
        // Four lanes take 64 bytes of a row at a time, whichever of them needs them. Rows that there are not stay as they are: no other row
        // meets their sums.
#pragma unroll
        for (int t = 0; t < C::kTiles; ++t) {
            if (!copies[t]) continue;
#pragma unroll
            for (int i = 0; i < C::kPieces; ++i) {
                const uint32_t flip = (C::kPieces == 4 ? i * 4 ^ i / 2 : i * 4) * 16;
                mma::copy_async_of<16, kWhole>((to_a ^ flip) + t * 8 * C::kRowBytes, a[t] + i * 64,
                                               max(0, min(left - 8 * (4 * i + c), 8)) * 2);
            }
        }
        if (p.by_group == 0) return;
#pragma unroll
        for (int part = 0; part < C::kParts; ++part) {
            const uint32_t depth = static_cast<uint32_t>(next_step) * C::kDepth + part * (C::kDepth / C::kParts);
            const int bytes = depth < static_cast<uint32_t>(p.k) ? 4 : 0;
            const uint32_t to = factors + stage * C::kStageB + part * C::kFactorBytes + c * 32;
            if (scale != nullptr)
                mma::copy_async_of<4, kWhole>(to, scale_column + quotient(depth, p.scale.depth_group) * p.scale.depth, bytes);
            if (C::kHasZeros && zero != nullptr)
                mma::copy_async_of<4, kWhole>(to + C::kParts * C::kFactorBytes,
                                              zero_column + quotient(depth, p.zero.depth_group) * p.zero.depth, bytes);
        }
    }

    // The products of a part of a step.
    __device__ __forceinline__ void multiply(int stage, int part, Sums &sums, float (&of_ones)[C::kTiles][4]) {
        uint32_t words[C::kLaneColumns][C::kWords], rows[C::kTiles][C::kRunPieces][4];
        const uint32_t from_b = read_b + stage * C::kStageB ^ part * (C::kWords * 16), from_a = read_a + stage * C::kBytesA;
#pragma unroll
        for (int r = 0; r < C::kLaneColumns; ++r) load(words[r], from_b + r * 512);
#pragma unroll
        for (int t = 0; t < C::kTiles; ++t)
#pragma unroll
            for (int i = 0; i < C::kRunPieces; ++i) {
                const int piece = part * 4 * C::kRunPieces + i;
                const uint32_t flip = (C::kPieces == 4 && C::kParts > 1 ? piece ^ piece / 8 : piece) * 16;
                mma::load_shared(rows[t][i], (from_a ^ flip) + t * 8 * C::kRowBytes);
            }
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
                                                   const uint32_t (&rows)[C::kTiles][C::kRunPieces][4], int w, Sums &sums) {
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
                                                     const uint32_t (&rows)[C::kTiles][C::kRunPieces][4], int w, Sums &sums,
                                                     float (&of_ones)[C::kTiles][4]) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            uint32_t of_a[C::kTiles][2];
#pragma unroll
            for (int t = 0; t < C::kTiles; ++t)
#pragma unroll
                for (int e = 0; e < 2; ++e) of_a[t][e] = __byte_perm(rows[t][w][half], rows[t][w][half + 2], e == 0 ? 0x5410u : 0x7632u);
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const uint32_t low = words[2 * h][w], high = words[2 * h + 1][w];
                const uint32_t of_b[4] = {widen(low, 2 * half), widen(high, 2 * half), widen(low, 2 * half + 1), widen(high, 2 * half + 1)};
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

    // total += a part's sums, where factors change along the depth less what zero points take, and times scales.
    __device__ __forceinline__ void add_part(int stage, int part, const Sums &sums, const float (&of_ones)[C::kTiles][4],
                                             Sums &total) const {
#pragma unroll
        for (int r = 0; r < C::kLaneColumns; ++r) {
            const uint32_t at = factors + stage * C::kStageB + part * C::kFactorBytes + r * 32;
            const float factor = p.by_group != 0 && scale != nullptr ? load_factor(at) : 1.0f;
            const float less = C::kHasZeros && zero != nullptr ? 8.0f - load_factor(at + C::kParts * C::kFactorBytes) : 0.0f;
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
__global__ void ATTILE_LAUNCH_BOUNDS(32 * kFewNarrowWarps, 1) gemm_few_narrow(const __grid_constant__ FewNarrowParams p) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    extern __shared__ __align__(256) char block_shared[];
    const uint32_t entry = quotient(blockIdx.x, p.blocks_n), block_n = blockIdx.x - entry * p.blocks_n.divisor;
    const int64_t batch_x = quotient(entry, p.batch_y), batch_y = entry - batch_x * p.batch_y.divisor;
    const int block_columns = p.groups * C::kColumns;
    const int64_t first_column = static_cast<int64_t>(block_n) * block_columns;
    FewNarrowWarp<C> own(p, mma::shared_address(block_shared), batch_x, batch_y, first_column);
    typename FewNarrowWarp<C>::Sums total = {};
    // The kernel behind starts when blocks end: earlier, its own would take the places of this one unevenly.
    await_kernel_ahead_alone();
#pragma unroll
    for (int i = 0; i + 1 < C::kStages; ++i) own.copy(i);
    int stage = 0, free_stage = C::kStages - 1;
#pragma unroll 1
    for (int step = own.share(); step < own.steps; step += own.shares) {
        mma::copy_wait<C::kStages - 2>();
        own.meet();
        own.copy(free_stage);
#pragma unroll
        for (int part = 0; part < C::kParts; ++part) {
            typename FewNarrowWarp<C>::Sums sums = {};
            float of_ones[C::kTiles][4] = {};
            own.multiply(stage, part, sums, of_ones);
            own.add_part(stage, part, sums, of_ones, total);
        }
        free_stage = stage;
        if (++stage == C::kStages) stage = 0;
    }
    if constexpr (C::kHasNan) own.poison(total);
    mma::copy_wait<0>();
    __syncthreads();  // Nobody reads stages any more.
    float *const sums = reinterpret_cast<float *>(block_shared);
    constexpr int kSums = C::kColumns * C::kRows;
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
        for (int t = 0; t < C::kTiles; ++t)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                sums[lane_group_index() * kSums + (t * 8 + own.c * 2 + e % 2) * C::kColumns + h * 16 + e / 2 * 8 + own.g] = total[h][t][e];
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kSums * own.groups; i += static_cast<int>(blockDim.x)) {
        const int group = i / kSums, row = i % kSums / C::kColumns;
        const int64_t column = first_column + group * C::kColumns + i % C::kColumns;
        if (row >= p.m || column >= p.n) continue;
        float value = 0;
        for (int w = 0; w < own.shares; ++w) value += sums[(w * own.groups + group) * kSums + i % kSums];
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
