// SPDX-License-Identifier: Apache-2.0
// GEMM of up to 16 rows on Hopper: D = activation(alpha A B + beta C + bias), a short A, a large B that is read once, float16 or bfloat16,
// sums in float32. B goes from memory straight into the registers that mma.sync takes: its columns are the rows of the product's first
// operand, so that 8 rows of A fill the second. Which of the depth a product's slots hold does not matter as long as A and B agree: a lane
// takes whole 8 or 16 bytes of B, and the same depths of A.
//
// Tile: 8 or 16 rows by 32 columns; eight warps share the depth, 64 of it at a time, and up to eight blocks of a cluster do (split-K). Sums
// are added in shared memory in order of warps, then, by each block for its share of the columns, in order of blocks: results repeat.
// Shared bytes: 8 warps * rows * 36 * 4 = 18432 (with 16 rows) and rows * 32 * 4 = 2048. Registers: 82 to 108, no spills; two blocks a
// multiprocessor, 64 KB of loads under way there. Bound: memory, 1 FLOP a byte for each row. Record: docs/kernels/gemm-sm90.md.
#pragma once

#include <type_traits>

#include "gemm/epilogue.h"
#include "gemm/params.h"
#include "gemm/sm90/few_rows.h"
#include "sm90/ptx.cuh"

namespace attile::gpu::sm90 {

template <class Element_, bool kAlongDepth_, int kRows_>
struct FewRowsConfig {
    using Element = Element_;
    static constexpr bool kAlongDepth = kAlongDepth_;  // B is contiguous along the depth, else along columns.
    static constexpr int kRows = kRows_;               // Most rows of A: 8 or 16.
    // Of a lane and 32 of the depth: eight depths of four columns, in as many loads as there are of the one or the other.
    static constexpr int kLoads = kAlongDepth ? kFewRowsColumns / 8 : 8, kWords = kAlongDepth ? 4 : 2;
    // From row to row of a warp's sums, so that lanes of different rows write to different banks.
    static constexpr int kPitch = kFewRowsColumns + (kAlongDepth ? 4 : 1);
};

// 8 or 16 bytes that this kernel reads once, or zeros.
template <bool kStays>
__device__ __forceinline__ void load_once(uint32_t (&to)[2], const void *from, bool exists) {
    to[0] = to[1] = 0;
    if constexpr (kStays)
        asm volatile("{ .reg .pred p; setp.ne.u32 p, %3, 0; @p ld.global.nc.L2::128B.v2.b32 {%0, %1}, [%2]; }"
                     : "+r"(to[0]), "+r"(to[1])
                     : "l"(from), "r"(static_cast<uint32_t>(exists)));
    else
        asm volatile("{ .reg .pred p; setp.ne.u32 p, %3, 0; @p ld.global.nc.L1::no_allocate.L2::128B.v2.b32 {%0, %1}, [%2]; }"
                     : "+r"(to[0]), "+r"(to[1])
                     : "l"(from), "r"(static_cast<uint32_t>(exists)));
}
template <bool kStays>
__device__ __forceinline__ void load_once(uint32_t (&to)[4], const void *from, bool exists) {
    to[0] = to[1] = to[2] = to[3] = 0;
    if constexpr (kStays)
        asm volatile("{ .reg .pred p; setp.ne.u32 p, %5, 0; @p ld.global.nc.L2::128B.v4.b32 {%0, %1, %2, %3}, [%4]; }"
                     : "+r"(to[0]), "+r"(to[1]), "+r"(to[2]), "+r"(to[3])
                     : "l"(from), "r"(static_cast<uint32_t>(exists)));
    else
        asm volatile("{ .reg .pred p; setp.ne.u32 p, %5, 0; @p ld.global.nc.L1::no_allocate.L2::128B.v4.b32 {%0, %1, %2, %3}, [%4]; }"
                     : "+r"(to[0]), "+r"(to[1]), "+r"(to[2]), "+r"(to[3])
                     : "l"(from), "r"(static_cast<uint32_t>(exists)));
}
// To the same place in another block of the cluster.
__device__ __forceinline__ void cluster_store(uint32_t to, uint32_t block, float value) {
    asm volatile("{ .reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1; st.shared::cluster.f32 [remote], %2; }" ::"r"(to),
                 "r"(block), "f"(value)
                 : "memory");
}

// What a block multiplies: a tile's columns, a batch entry, a part of the depth.
struct FewRowsPlace {
    int lane, warp, outer, inner;  // A lane's place in the fragments that mma.sync takes.
    int splits, rank;              // Blocks of the cluster, and this one's number.
    int64_t col_first, batch_x, batch_y;

    __device__ __forceinline__ explicit FewRowsPlace(const GemmParams &p)
        : lane(static_cast<int>(threadIdx.x) % kWarpThreads),
          warp(static_cast<int>(threadIdx.x) / kWarpThreads),
          outer(lane / 4),
          inner(lane % 4),
          splits(static_cast<int>(p.splits)),
          rank(static_cast<int>(blockIdx.x % p.splits)) {
        const uint32_t unit = blockIdx.x / p.splits, batch = unit / p.tiles_n;
        col_first = static_cast<int64_t>(unit - batch * p.tiles_n) * kFewRowsColumns;
        batch_x = batch / p.batch_y;
        batch_y = batch - batch_x * p.batch_y;
    }
};

// A lane's way through A and B: pieces of the depth, in halves of 32.
template <class Config>
struct FewRowsLoader {
    using Element = typename Config::Element;
    static constexpr int kGroups = Config::kRows / 8;
    using OfA = uint32_t[2][kGroups][4];
    using OfB = uint32_t[2][Config::kLoads][Config::kWords];
    const Element *a, *b;
    int64_t step, next_rows;
    int piece, piece_end, depth_left, columns;

    __device__ __forceinline__ FewRowsLoader(const GemmParams &p, const FewRowsPlace &at) {
        const int pieces = static_cast<int>((p.k + kFewRowsDepth - 1) / kFewRowsDepth);
        piece_end = (at.rank + 1) * pieces / at.splits;
        piece = at.rank * pieces / at.splits + at.warp;
        const int64_t first_depth = static_cast<int64_t>(piece) * kFewRowsDepth + at.inner * 8;
        depth_left = static_cast<int>(p.k - first_depth);
        // Columns come in eights; where they end a lane reads others again, whose sums nobody stores.
        columns = static_cast<int>(min(p.n - at.col_first, int64_t{kFewRowsColumns}));
        b = static_cast<const Element *>(p.b.data) + at.batch_x * p.b.batch_x + at.batch_y * p.b.batch_y;
        if (Config::kAlongDepth) {
            b += (at.col_first + at.outer) * p.b.outer + first_depth;
        } else {
            b += at.col_first + min(at.outer * 4, columns - 4) + first_depth * p.b.depth;
        }
        step = Config::kAlongDepth ? 8 * p.b.outer : p.b.depth;
        const int rows = static_cast<int>(p.m), row = min(at.outer, rows - 1);
        next_rows = static_cast<int64_t>(min(at.outer + 8, rows - 1) - row) * p.a.outer;
        a = static_cast<const Element *>(p.a.data) + at.batch_x * p.a.batch_x + at.batch_y * p.a.batch_y + row * p.a.outer + first_depth;
    }
    __device__ __forceinline__ bool has_piece() const { return piece < piece_end; }
    __device__ __forceinline__ void advance() {
        piece += kFewRowsWarps;
        a += kFewRowsWarps * kFewRowsDepth;
        b += kFewRowsWarps * kFewRowsDepth * (Config::kAlongDepth ? 1 : step);
        depth_left -= kFewRowsWarps * kFewRowsDepth;
    }
    // Half of the loads of B, a quarter where it is contiguous along the depth, take no place in the L1 cache (L1::no_allocate) and, as
    // measured, leave the L2 cache sooner too. By ordinary loads alone a matrix that stays in the cache from call to call is read at 1.5
    // times the rate, and one that does not takes longer, since other data must be written back for it.
    template <int kHalf>
    __device__ __forceinline__ void load(OfA &of_a, OfB &of_b) const {
        const bool exists = depth_left > kHalf * 32;
        const Element *from = b + (Config::kAlongDepth ? kHalf * 32 : kHalf * 32 * step);
#pragma unroll
        for (int i = 0; i < Config::kLoads; ++i) {
            if (kHalf == 0 || (Config::kAlongDepth && i % 2 == 0))
                load_once<true>(of_b[kHalf][i], from, exists);
            else
                load_once<false>(of_b[kHalf][i], from, exists);
            if (!Config::kAlongDepth || (i + 1) * 8 < columns) from += step;
        }
#pragma unroll
        for (int g = 0; g < kGroups; ++g) load_once<true>(of_a[kHalf][g], a + g * next_rows + kHalf * 32, exists);
    }
};

constexpr int kFewRowsTiles = kFewRowsColumns / 16;
template <class Config>
using FewRowsSums = float[Config::kRows / 8][kFewRowsTiles][4];
template <class Config>
using FewRowsParts = float[kFewRowsWarps][Config::kRows][Config::kPitch];

// The product of 32 of the depth.
template <class Config>
__device__ __forceinline__ void multiply_half(FewRowsSums<Config> &sums, const uint32_t (&a)[Config::kRows / 8][4],
                                              const uint32_t (&w)[Config::kLoads][Config::kWords]) {
#pragma unroll
    for (int u = 0; u < 2; ++u) {
#pragma unroll
        for (int t = 0; t < kFewRowsTiles; ++t) {
            uint32_t f[4];
            if constexpr (Config::kAlongDepth) {
#pragma unroll
                for (int i = 0; i < 4; ++i) f[i] = w[2 * t + i % 2][2 * u + i / 2];
            } else {  // Pairs along the depth are made of two rows.
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int pair = 4 * u + 2 * (i / 2);
                    f[i] = __byte_perm(w[pair][t], w[pair + 1][t], i % 2 == 0 ? 0x5410 : 0x7632);
                }
            }
#pragma unroll
            for (int g = 0; g < Config::kRows / 8; ++g) multiply<typename Config::Element>(sums[g][t], f, a[g][2 * u], a[g][2 * u + 1]);
        }
    }
}

// A warp's sums to shared memory: sums[g][t] holds rows 8 g + 2 inner and the next, of two columns.
template <class Config>
__device__ __forceinline__ void store_parts(FewRowsParts<Config> &parts, const FewRowsSums<Config> &sums, const FewRowsPlace &at,
                                            int rows) {
#pragma unroll
    for (int g = 0; g < Config::kRows / 8; ++g) {
#pragma unroll
        for (int t = 0; t < kFewRowsTiles; ++t) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int to = 8 * g + 2 * at.inner + i % 2;
                const int column = Config::kAlongDepth ? 16 * t + 8 * (i / 2) + at.outer : 4 * at.outer + 2 * t + i / 2;
                if (to < rows) parts[at.warp][to][column] = sums[g][t][i];
            }
        }
    }
}

template <class Config>
__device__ __forceinline__ float sum_of_warps(const FewRowsParts<Config> &parts, int row, int column) {
    float sum = parts[0][row][column];
#pragma unroll
    for (int i = 1; i < kFewRowsWarps; ++i) sum += parts[i][row][column];
    return sum;
}

template <class Config>
__global__ void ATTILE_LAUNCH_BOUNDS(kFewRowsThreads, kFewRowsBlocks) gemm_few_rows(const __grid_constant__ GemmParams p) {
    __shared__ FewRowsParts<Config> parts;
    __shared__ float shares[Config::kRows * kFewRowsColumns];  // [block][row][column of the share]
    const FewRowsPlace at(p);
    if (at.splits > 1) asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");

    // ---- A B, each warp its pieces of the depth.
    FewRowsLoader<Config> loader(p, at);
    typename FewRowsLoader<Config>::OfA of_a;
    typename FewRowsLoader<Config>::OfB of_b;
    FewRowsSums<Config> sums = {};
    await_kernel_ahead();
    if (loader.has_piece()) {
        loader.template load<0>(of_a, of_b);
        loader.template load<1>(of_a, of_b);
    }
#pragma unroll 1
    while (loader.has_piece()) {
        loader.advance();
        const bool more = loader.has_piece();
        multiply_half<Config>(sums, of_a[0], of_b[0]);
        if (more) loader.template load<0>(of_a, of_b);
        multiply_half<Config>(sums, of_a[1], of_b[1]);
        if (more) loader.template load<1>(of_a, of_b);
    }

    // ---- Sums of the warps, then of the blocks.
    const int rows = static_cast<int>(p.m), columns = loader.columns, splits = at.splits;
    store_parts<Config>(parts, sums, at, rows);
    __syncthreads();
    GemmOrigin origin;
    origin.set(p, at.batch_x, at.batch_y, 0, at.col_first, 0);
    const GemmEpilogue<float, GemmParams> epilogue(p, origin);
    const float alpha = static_cast<float>(p.alpha);
    const int share = kFewRowsColumns / splits, share_size = rows * share;  // Columns of a block, and its sums.
    if (splits > 1) {
        asm volatile("barrier.cluster.wait.aligned;" ::: "memory");  // All blocks have begun.
#pragma unroll 1
        for (int index = static_cast<int>(threadIdx.x); index < rows * kFewRowsColumns; index += kFewRowsThreads) {
            const int r = index / kFewRowsColumns, column = index % kFewRowsColumns, owner = column / share;
            const uint32_t to = shared_address(&shares[at.rank * share_size + r * share + column - owner * share]);
            cluster_store(to, static_cast<uint32_t>(owner), sum_of_warps<Config>(parts, r, column));
        }
        cluster_sync();
    }
#pragma unroll 1
    for (int index = static_cast<int>(threadIdx.x); index < share_size; index += kFewRowsThreads) {
        const int r = index / share, column = at.rank * share + index - r * share;
        if (column >= columns) continue;
        float sum;
        if (splits > 1) {
            sum = shares[index];
#pragma unroll 1
            for (int i = 1; i < splits; ++i) sum += shares[i * share_size + index];
        } else {
            sum = sum_of_warps<Config>(parts, r, column);
        }
        epilogue.store(r, column, alpha * sum);
    }
}

}  // namespace attile::gpu::sm90
