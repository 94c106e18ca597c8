// SPDX-License-Identifier: Apache-2.0
// GEMM on Hopper's tensor cores: D = activation(alpha A B + beta C + bias), A and B float16 or bfloat16 in any of the four layouts, sums in
// float32, D of their type or float32, batched; edges are cut by the copy engine's bounds.
//
// Tiles: 128x256, 128x128, 128x64, 64x64 or 64x16 by 64 of depth, of the product or of its transpose, so that 16 columns serve up to 16
// rows of D. A warpgroup loads, by the copy engine, as many stages ahead as there are; one for every 64 rows multiplies: 384 or 256
// threads. Blocks stay and take tiles in turn; the loads of the next tile run during the epilogue of the last. With 256 columns, or
// 64 by 64, two blocks of a cluster can share B's panel by multicast. Narrowed sums leave for D during the first products of the next tile.
// Few tiles of much depth: 2, 3, 4 or 8 blocks of a cluster share a tile's depth and add their sums through each other's shared memory, in
// order of rank, so that results repeat.
//
// Shared bytes: stages * (rows + columns) * 64 * 2, that is 4 * 49152 with 128x256, 6 * 32768 with 128x128, 8 * 24576 with 128x64, 12 *
// 16384 with 64x64, 19 * 10240 with 64x16 (12 * 16384 if B is contiguous along columns, which come 64 at a time); 4096 for each multiplying
// warp's strip; 1024 for alignment; 16 a stage for barriers: 230464 with 128x256. Registers: 168 at launch of 384 threads, 232 of 256, then
// 40 for loading and 232 for multiplying ones; no spills (ptxas 13.0). One block a multiprocessor. Arithmetic intensity: 128x256 does 85
// FLOP per byte from L2, 128x128 64, 128x64 43, 64x64 32, 64x16 13.
//
// Measured (H200, interleaved with cuBLAS, whose rate is in brackets, TFLOP/s): bfloat16 8192^3 757 to 803 in two runs (792, 795), 4096^3
// 755 (770), 2048^3 607 (630), 1024^3 220 (247); 128x4096x4096 223 (243), 16x4096x4096 30.6 (29.2); 1000x1001x1003, packed first, 111 (65).
// Launched alone, 4096^3 reaches 790. To measure again: tools/compare_peers.py --groups gemm16.
//
// What mattered: mbarrier arrivals on another block without .release.cluster, which compiles to a memory barrier a stage (527 to 745
// TFLOP/s in the prototype); releasing a stage only after the next stage's products are queued; sums that wait in shared
// memory and registers while the next tile has begun: at the end of a tile all multiprocessors would wait for the L2 cache to take them,
// 2300 clocks through the copy engine, 2600 by stores of each warp, now 750; 64 rows instead of 128 where tiles are few (16x4096x4096 20.8
// to 17.2 us); little straight code before the first product, since a kernel's instructions come from memory: no divisions, no addresses of
// epilogues that are not taken, no loop over lanes around the copy engine's instructions (4096^3 alone 182.3 to 179.3 us, 170.8 instead of
// 172.3 us in a row; 128x4096x4096 alone 21.3 to 20.3 us). What lost: more than two blocks a cluster (of four only 30 fit on 132
// multiprocessors, so that 32 take two rounds); splits of the depth of 4096 for few rows with a cold L2 cache (17.2 to 18.2 us; with a warm
// one they win, 14.5 to 11.3); the second warpgroup a stage or two behind the first (4096^3 182.3 to 183.5 us); cache hints for the copy
// engine, even those that ask for nothing special (128x4096x4096 20.2 to 24.4 us).
#pragma once

#include "numeric.h"
#include "sm90_gemm_arguments.h"
#include "sm90_gemm_epilogue.cuh"
#include "sm90_gemm_product.cuh"
#include "sm90_ptx.cuh"

namespace attile::sm90 {

template <class Element_, int kRows_, int kColumns_, int kOuterA_, int kOuterB_>
struct GemmConfig {
    using Element = Element_;
    static constexpr int kRows = kRows_, kColumns = kColumns_, kOuterA = kOuterA_, kOuterB = kOuterB_;
    static constexpr int kStages = gemm_stages(kRows, kColumns, kOuterB != 0);
    static constexpr int kBytesA = kRows * kGemmDepth * 2;
    static constexpr int kStageBytes = gemm_stage_bytes(kRows, kColumns, kOuterB != 0);
    static constexpr int kPiecesB = (kColumns + kGemmPiece - 1) / kGemmPiece;
    static constexpr int kPieceBytes = kGemmPiece * kGemmDepth * 2;
    static_assert(gemm_shared_bytes(kRows, kColumns, kOuterB != 0) <= kGemmSharedLimit, "what a block can have");
    static_assert(kStageBytes % 1024 == 0, "swizzled panels start at multiples of 1024");
    static_assert(kRows * kColumns * 4 <= kStages * kStageBytes, "a split's sums take the stages' place");
};

// The tiles a block makes, one after another.
struct GemmPlace {
    uint32_t a, b;  // Units along the rows and columns.
    uint32_t batch_x, batch_y;
    __device__ __forceinline__ GemmPlace(const GemmArguments &p, uint32_t unit) {
        const uint32_t batch = quotient(unit, p.entry), in_entry = unit - batch * p.entry.divisor;
        const uint32_t band = quotient(in_entry, p.band), in_band = in_entry - band * p.band.divisor;
        b = band < p.last_band ? quotient(in_band, p.rows) : quotient(in_band, p.last);
        a = band * p.rows.divisor + in_band - b * (band < p.last_band ? p.rows.divisor : p.last.divisor);
        batch_x = quotient(batch, p.batch_y);
        batch_y = batch - batch_x * p.batch_y.divisor;
    }
};

template <class Config>
__global__ void __launch_bounds__(gemm_threads(Config::kRows), 1) gemm_kernel(const __grid_constant__ GemmArguments p) {
    constexpr int kColumns = Config::kColumns, kStages = Config::kStages;
    extern __shared__ unsigned char dynamic_shared[];
    const uint32_t stages = (shared_address(dynamic_shared) + 1023) & ~1023u;
    const uint32_t strips = stages + kStages * Config::kStageBytes;
    const uint32_t barriers = strips + Config::kRows / 16 * kGemmStripBytes;
    const auto full = [&](int stage) { return barriers + 8 * stage; };
    const auto empty = [&](int stage) { return barriers + 8 * (kStages + stage); };

    const uint32_t cluster = static_cast<uint32_t>(max(p.multicast, p.splits));
    const uint32_t rank = cluster > 1 ? warp_uniform(cluster_rank()) : 0;
    const uint32_t first_unit = cluster > 1 ? cluster_index() : blockIdx.x, units = cluster > 1 ? cluster_count() : gridDim.x;
    // Depth that this block sums.
    const int split = p.splits > 1 ? static_cast<int>(rank) : 0;
    const int depth_first = split * p.depth_each + min(split, p.depth_more);
    const int depth_end = depth_first + p.depth_each + (split < p.depth_more ? 1 : 0);
    const bool shares = p.multicast > 1;

    const int warp = warp_uniform(static_cast<int>(threadIdx.x) / kWarpThreads);
    if (warp == 0 && elect_lane()) {
        tensor_map_prefetch(&p.map_a);
        tensor_map_prefetch(&p.map_b);
#pragma unroll 1
        for (int stage = 0; stage < kStages; ++stage) {
            barrier_init(full(stage), 1);
            barrier_init(empty(stage), Config::kRows / 16 * static_cast<uint32_t>(p.multicast));
        }
        barrier_init_fence();
    }
    if (cluster > 1) {
        cluster_meet();
    } else {
        __syncthreads();
    }
    await_kernel_ahead();

    const int warpgroup = warp / (kWarpgroupThreads / kWarpThreads);
    if (__builtin_expect(warpgroup == 0, 1)) {
        registers_shrink<40>();
        if (warp == 0 && elect_lane()) {
            int stage = 0;
            uint32_t parity = 0;
            // A piece of 64 rows (columns) by the stage's depth; its first coordinate is along the contiguous axis.
            const auto load = [&](uint32_t to, const CUtensorMap *map, int outer_first, int outer, int depth, int y, int x) {
                tensor_load_4d(to, map, full(stage), outer_first != 0 ? outer : depth, outer_first != 0 ? depth : outer, y, x);
            };
#pragma unroll 1
            for (uint32_t unit = first_unit; unit < p.tiles; unit += units) {
                const GemmPlace place(p, unit);
                const int row = static_cast<int>((shares ? place.a * kGemmMulticast + rank : place.a) * Config::kRows);
                const int col = static_cast<int>(place.b * kColumns);
                const int ax = static_cast<int>(place.batch_x) * p.a_batch_x, ay = static_cast<int>(place.batch_y) * p.a_batch_y;
                const int bx = static_cast<int>(place.batch_x) * p.b_batch_x, by = static_cast<int>(place.batch_y) * p.b_batch_y;
#pragma unroll 1
                for (int block = depth_first; block < depth_end; ++block) {
                    const uint32_t a = stages + stage * Config::kStageBytes, b = a + Config::kBytesA;
                    const int depth = block * kGemmDepth;
                    barrier_wait(empty(stage), parity ^ 1);
                    barrier_arrive_expect(full(stage), Config::kStageBytes);
#pragma unroll
                    for (int i = 0; i < Config::kRows / kGemmPiece; ++i) {
                        load(a + i * Config::kPieceBytes, &p.map_a, Config::kOuterA, row + i * kGemmPiece, depth, ay, ax);
                    }
                    if (kColumns < kGemmPiece || !shares) {
#pragma unroll
                        for (int i = 0; i < Config::kPiecesB; ++i) {
                            load(b + i * Config::kPieceBytes, &p.map_b, Config::kOuterB, col + i * kGemmPiece, depth, by, bx);
                        }
                    } else if (Config::kPiecesB == 1) {  // Half a piece.
                        constexpr int kHalf = kGemmPiece / kGemmMulticast;
                        const int at = static_cast<int>(rank) * kHalf;
                        tensor_load_4d_multicast(b + at * 128, &p.map_b, full(stage), Config::kOuterB != 0 ? col : depth,
                                                 Config::kOuterB != 0 ? depth + at : col + at, by, bx, (1 << kGemmMulticast) - 1);
                    } else {
#pragma unroll
                        for (int i = 0; i < Config::kPiecesB / kGemmMulticast; ++i) {
                            const int piece = static_cast<int>(rank) * (Config::kPiecesB / kGemmMulticast) + i;
                            const int outer = col + piece * kGemmPiece;
                            tensor_load_4d_multicast(b + piece * Config::kPieceBytes, &p.map_b, full(stage),
                                                     Config::kOuterB != 0 ? outer : depth, Config::kOuterB != 0 ? depth : outer, by, bx,
                                                     (1 << kGemmMulticast) - 1);
                        }
                    }
                    if (++stage == kStages) {
                        stage = 0;
                        parity ^= 1;
                    }
                }
            }
        }
        __syncwarp();
        if (p.splits > 1) {
            cluster_sync();  // The sums are written.
            cluster_sync();  // And read.
        }
    } else {
        registers_grow<232>();
        const int group = warpgroup - 1;
        const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
        int stage = 0;
        uint32_t parity = 0;
        const uint64_t operand_a = product_operand(stages + group * Config::kPieceBytes, Config::kPieceBytes);
        const uint64_t operand_b = product_operand(stages + Config::kBytesA, Config::kPieceBytes);
        // From one depth of 16 to the next, in units of 16 bytes: 32 bytes along a row, or 16 rows.
        constexpr int kNextA = Config::kOuterA != 0 ? 128 : 2, kNextB = Config::kOuterB != 0 ? 128 : 2;
        const auto release = [&](int which) {
            if (!shares) {
                if (lane == 0) barrier_arrive(empty(which));
            } else if (lane < kGemmMulticast) {
                barrier_arrive_remote(empty(which), lane);
            }
        };
        const int depth_blocks = warp_uniform(depth_end - depth_first);
        GemmStore<Config> store(p, strips, stages, rank);
        for (uint32_t unit = first_unit; unit < p.tiles; unit += units) {
            const GemmPlace place(p, unit);
            float sums[kColumns / 2];
            const auto step = [&](int block) {
                barrier_wait(full(stage), parity);
                const uint64_t a = operand_a + stage * (Config::kStageBytes >> 4), b = operand_b + stage * (Config::kStageBytes >> 4);
                keep_in_registers(sums);
                product_fence();
#pragma unroll
                for (int i = 0; i < kGemmDepth / 16; ++i) {
                    gemm_product<typename Config::Element, kColumns, Config::kOuterA, Config::kOuterB>(sums, a + i * kNextA, b + i * kNextB,
                                                                                                       block | i);
                }
                product_commit();
                keep_in_registers(sums);
                if (block > 0) {
                    product_wait<1>();
                    keep_in_registers(sums);
                    release(stage == 0 ? kStages - 1 : stage - 1);
                }
                if (++stage == kStages) {
                    stage = 0;
                    parity ^= 1;
                }
            };
            int block = 0;
            if (store.pending()) {
                store.store_late([&] {
                    if (block < depth_blocks) step(block++);
                });
            }
#pragma unroll 1
            for (; block < depth_blocks; ++block) step(block);
            product_wait<0>();
            keep_in_registers(sums);
            release(stage == 0 ? kStages - 1 : stage - 1);
            const uint32_t row_tile = shares ? place.a * kGemmMulticast + rank : place.a;
            store.tile(sums, place.batch_x, place.batch_y, static_cast<int64_t>(row_tile) * Config::kRows,
                       static_cast<int64_t>(place.b) * kColumns);
        }
        if (store.pending()) store.store_late([] {});
    }
    if (shares) {  // The other block may still arrive on this one's barriers.
        __syncwarp();
        cluster_meet();
    }
}

}  // namespace attile::sm90
