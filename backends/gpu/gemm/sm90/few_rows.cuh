// SPDX-License-Identifier: Apache-2.0
// GEMM of up to 16 rows on Hopper: D = activation(alpha A B + beta C + bias), a short A, a large B that is read once, float16 or bfloat16,
// sums in float32. B goes from memory straight into the registers that mma.sync takes: its columns are the rows of the product's first
// operand, so that 8 rows of A fill the second. Which of the depth a product's slots hold does not matter as long as A and B agree: a lane
// takes whole 8 or 16 bytes of B, and the same depths of A.
//
// Tile: 8 or 16 rows by 32 columns; eight warps share the depth, 64 of it at a time, and up to eight blocks of a cluster do. Sums are added
// in shared memory in order of warps, then, by each block for its share of the columns, in order of blocks: results repeat. Of the loads of
// B half, or three quarters where it is contiguous along the depth, are ordinary, the others take no place in the L1 cache
// (L1::no_allocate) and by what was measured leave the L2 cache sooner, too: with the ordinary kind alone a matrix that stays in the cache
// from call to call is read at 1.5 times the rate, and one that does not takes longer, since other data must be written back for it.
//
// Shared bytes: 8 warps * rows * 36 * 4 = 18432 (with 16 rows) and rows * 32 * 4 = 2048. Registers: 82 to 108 (ptxas 13.0), no spills; two
// blocks a multiprocessor, 64 KB of loads under way there. Arithmetic intensity: 1 FLOP a byte for each row.
//
// Tiles of gemm/sm90/kernel.cuh that two blocks share by halves take up to 16 rows instead (gemm/sm90/run.cpp) where nothing but scaling
// lies between the sums and D: 16 rows alone 16.6 us where this kernel takes 18.2, in a row 8.6 to 8.7 where it takes 11.1 / 9.9. Up to 4
// rows beside a B along the depth are this kernel's (1 row 8.9 where halves take 9.1), and all products with an epilogue.
//
// Measured (H200, N = K = 4096, bfloat16, us; interleaved with cuBLAS, in brackets), B along columns / along the depth: alone with a cold
// L2 cache 1 row 18.0 to 19.2 (18.0) / 16.6 (18.1), 16 rows 17.9 to 18.3 (17.7) / 17.3 (18.4); 8 calls in a row 1 row 10.3 (11.3) / 8.8
// (11.4), 16 rows 11.2 (10.9) / 10.1 (11.2). An empty kernel takes 2.8 and 0.9, reading B and nothing else 13 to 14.5 and 6.6 to 10. To
// measure again: tools/compare_peers.py --groups gemm16, with and without --burst 8.
//
// Lost: 64 columns a block (as fast with B along columns, 11.9 with it along the depth, 16 rows); 128 columns and four blocks a cluster
// (16 to 19: so many clusters do not fit at once); 16 warps a block (16 rows 11.5); all loads without a place in L1 (12.5 to 14.5 in a
// row); none (18.5 to 20 alone); prefetches into the L2 cache while the kernel ahead ends (no difference).
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

template <class Config>
__global__ void ATTILE_LAUNCH_BOUNDS(kFewRowsThreads, kFewRowsBlocks) gemm_few_rows(const __grid_constant__ GemmParams p) {
    using Element = typename Config::Element;
    constexpr int kRows = Config::kRows, kGroups = kRows / 8, kTiles = kFewRowsColumns / 16;
    __shared__ float parts[kFewRowsWarps][kRows][Config::kPitch];
    __shared__ float shares[kRows * kFewRowsColumns];  // [block][row][column of the share]
    const int lane = static_cast<int>(threadIdx.x) % kWarpThreads, warp = static_cast<int>(threadIdx.x) / kWarpThreads;
    const int outer = lane / 4, inner = lane % 4;
    const int splits = static_cast<int>(p.splits), rank = static_cast<int>(blockIdx.x % p.splits);
    const uint32_t unit = blockIdx.x / p.splits, batch = unit / p.tiles_n;
    const int64_t col_first = static_cast<int64_t>(unit - batch * p.tiles_n) * kFewRowsColumns;
    const int64_t batch_x = batch / p.batch_y, batch_y = batch - batch_x * p.batch_y;
    if (splits > 1) asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");

    const int pieces = static_cast<int>((p.k + kFewRowsDepth - 1) / kFewRowsDepth);
    const int piece_end = (rank + 1) * pieces / splits;
    int piece = rank * pieces / splits + warp;
    const int64_t first_depth = static_cast<int64_t>(piece) * kFewRowsDepth + inner * 8;
    int depth_left = static_cast<int>(p.k - first_depth);

    // Columns come in eights; where they end a lane reads others again, whose sums nobody stores.
    const int columns = static_cast<int>(min(p.n - col_first, int64_t{kFewRowsColumns}));
    const Element *b = static_cast<const Element *>(p.b.data) + batch_x * p.b.batch_x + batch_y * p.b.batch_y;
    if (Config::kAlongDepth) {
        b += (col_first + outer) * p.b.outer + first_depth;
    } else {
        b += col_first + min(outer * 4, columns - 4) + first_depth * p.b.depth;
    }
    const int64_t step = Config::kAlongDepth ? 8 * p.b.outer : p.b.depth;
    const int rows = static_cast<int>(p.m), row = min(outer, rows - 1);
    const int64_t next_rows = static_cast<int64_t>(min(outer + 8, rows - 1) - row) * p.a.outer;
    const Element *a =
        static_cast<const Element *>(p.a.data) + batch_x * p.a.batch_x + batch_y * p.a.batch_y + row * p.a.outer + first_depth;

    uint32_t of_a[2][kGroups][4], of_b[2][Config::kLoads][Config::kWords];
    const auto load = [&](auto half) {  // Of a piece, 32 of the depth.
        constexpr int kHalf = decltype(half)::value;
        const bool exists = depth_left > kHalf * 32;
        const Element *from = b + (Config::kAlongDepth ? kHalf * 32 : kHalf * 32 * step);
#pragma unroll
        for (int i = 0; i < Config::kLoads; ++i) {
            // Of B along the depth a quarter takes no place in the L1 cache, else half.
            if (kHalf == 0 || (Config::kAlongDepth && i % 2 == 0))
                load_once<true>(of_b[kHalf][i], from, exists);
            else
                load_once<false>(of_b[kHalf][i], from, exists);
            if (!Config::kAlongDepth || (i + 1) * 8 < columns) from += step;
        }
#pragma unroll
        for (int g = 0; g < kGroups; ++g) load_once<true>(of_a[kHalf][g], a + g * next_rows + kHalf * 32, exists);
    };
    float sums[kGroups][kTiles][4] = {};
    const auto multiply_half = [&](int half) {
        const auto &w = of_b[half];
#pragma unroll
        for (int u = 0; u < 2; ++u) {
#pragma unroll
            for (int t = 0; t < kTiles; ++t) {
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
                for (int g = 0; g < kGroups; ++g) multiply<Element>(sums[g][t], f, of_a[half][g][2 * u], of_a[half][g][2 * u + 1]);
            }
        }
    };
    constexpr std::integral_constant<int, 0> kFirst{};
    constexpr std::integral_constant<int, 1> kSecond{};
    await_kernel_ahead();
    if (piece < piece_end) {
        load(kFirst);
        load(kSecond);
    }
#pragma unroll 1
    while (piece < piece_end) {
        piece += kFewRowsWarps;
        const bool more = piece < piece_end;
        a += kFewRowsWarps * kFewRowsDepth;
        b += kFewRowsWarps * kFewRowsDepth * (Config::kAlongDepth ? 1 : step);
        depth_left -= kFewRowsWarps * kFewRowsDepth;
        multiply_half(0);
        if (more) load(kFirst);
        multiply_half(1);
        if (more) load(kSecond);
    }

    // sums[g][t] holds rows 8 g + 2 inner and the next, of two columns.
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int to = 8 * g + 2 * inner + i % 2;
                const int column = Config::kAlongDepth ? 16 * t + 8 * (i / 2) + outer : 4 * outer + 2 * t + i / 2;
                if (to < rows) parts[warp][to][column] = sums[g][t][i];
            }
        }
    }
    __syncthreads();
    const auto sum_of_warps = [&](int r, int column) {
        float sum = parts[0][r][column];
#pragma unroll
        for (int i = 1; i < kFewRowsWarps; ++i) sum += parts[i][r][column];
        return sum;
    };
    GemmOrigin origin;
    origin.set(p, batch_x, batch_y, 0, col_first, 0);
    const GemmEpilogue<float, GemmParams> epilogue(p, origin);
    const float alpha = static_cast<float>(p.alpha);
    const int share = kFewRowsColumns / splits, share_size = rows * share;  // Columns of a block, and its sums.
    if (splits > 1) {
        asm volatile("barrier.cluster.wait.aligned;" ::: "memory");  // All blocks have begun.
#pragma unroll 1
        for (int index = static_cast<int>(threadIdx.x); index < rows * kFewRowsColumns; index += kFewRowsThreads) {
            const int r = index / kFewRowsColumns, column = index % kFewRowsColumns, owner = column / share;
            const uint32_t to = shared_address(&shares[rank * share_size + r * share + column - owner * share]);
            cluster_store(to, static_cast<uint32_t>(owner), sum_of_warps(r, column));
        }
        cluster_sync();
    }
#pragma unroll 1
    for (int index = static_cast<int>(threadIdx.x); index < share_size; index += kFewRowsThreads) {
        const int r = index / share, column = rank * share + index - r * share;
        if (column >= columns) continue;
        float sum;
        if (splits > 1) {
            sum = shares[index];
#pragma unroll 1
            for (int i = 1; i < splits; ++i) sum += shares[i * share_size + index];
        } else {
            sum = sum_of_warps(r, column);
        }
        epilogue.store(r, column, alpha * sum);
    }
}

}  // namespace attile::gpu::sm90
