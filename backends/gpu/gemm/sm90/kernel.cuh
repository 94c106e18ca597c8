// SPDX-License-Identifier: Apache-2.0
// GEMM on Hopper's tensor cores: D = activation(alpha A B + beta C + bias), A and B float16 or bfloat16 in any of the four layouts, sums in
// float32, D of their type or float32, batched; TMA's bounds cut the edges. Record: docs/kernels/gemm-sm90.md.
//
// Tiles: 128x256, 128x128, 128x64, 64x64, 64x32 or 64x16 by 64 of depth, of the product or of its transpose. One producer warpgroup, one
// consumer warpgroup for every 64 rows. Blocks are persistent; the next tile's loads run during the last one's epilogue. Two blocks of a
// cluster can share B's panel by multicast. Few tiles of much depth: blocks of a cluster share a tile's depth, and add their sums through
// each other's shared memory in order of rank, so that results repeat.
//
// Shared bytes: stages * (rows + columns) * 64 * 2, 4096 for each consumer warp's strip, 1024 for alignment, 16 a stage and 16 for
// barriers: 4 * 49152 + 8 * 4096 + 1024 + 80 = 230480 with 128x256. Registers: 168 at launch with 128x256, then 40 of a producer and 232
// of a consumer thread; 140 with 128x128, fewer below; no spills. One block a multiprocessor. Bound: the tensor cores; 128x256 does 85
// FLOP a byte of L2, 64x16 does 13.
#pragma once

#include "gemm/sm90/arguments.h"
#include "gemm/sm90/epilogue.cuh"
#include "gemm/sm90/producer.cuh"
#include "gemm/sm90/product.cuh"
#include "numeric.h"
#include "sm90/cluster.cuh"
#include "sm90/ptx.cuh"

namespace attile::gpu::sm90 {

template <class Element_, int kRows_, int kColumns_, int kOuterA_, int kOuterB_>
struct GemmConfig {
    using Element = Element_;
    static constexpr int kRows = kRows_, kColumns = kColumns_, kOuterA = kOuterA_, kOuterB = kOuterB_;
    static constexpr int kStages = gemm_stages(kRows, kColumns, kOuterB != 0);
    static constexpr int kBytesA = kRows * kGemmDepth * 2;
    static constexpr int kStageBytes = gemm_stage_bytes(kRows, kColumns, kOuterB != 0);
    static constexpr int kPiecesB = (kColumns + kGemmPiece - 1) / kGemmPiece;
    static constexpr int kPieceBytes = kGemmPiece * kGemmDepth * 2;
    static constexpr bool kMovesRegisters = kColumns > 128;  // From the producer to the consumers; for smaller tiles all have enough.
    static_assert(gemm_shared_bytes(kRows, kColumns, kOuterB != 0) <= kGemmSharedLimit, "what a block can have");
    static_assert(kStageBytes % 1024 == 0, "swizzled panels start at multiples of 1024");
    static_assert(kRows * kColumns * 4 <= kStages * kStageBytes, "a split's sums take the stages' place");
};

template <class Config>
__global__ void ATTILE_LAUNCH_BOUNDS(gemm_threads(Config::kRows), 1) gemm_kernel(const __grid_constant__ GemmArguments p) {
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
    const uint32_t met = barriers + 16 * kStages;  // Mbarrier for the other block's sums, where two blocks share a depth.
    const auto make_stage = [&](int stage) {
        barrier_init(full(stage), 1);
        barrier_init(empty(stage), Config::kRows / 16 * static_cast<uint32_t>(p.multicast));
    };
    int filled = 0;  // Stages whose first loads have been issued.
    if constexpr (Config::kMovesRegisters) {
        if (warp == 0 && elect_lane()) {
            tensor_map_prefetch(&p.map_a);
            tensor_map_prefetch(&p.map_b);
#pragma unroll 1
            for (int stage = 0; stage < kStages; ++stage) make_stage(stage);
            barrier_init_fence();
        }
        if (cluster > 1) {
            cluster_meet();
        } else {
            __syncthreads();
        }
        await_kernel_ahead();
    } else {
        // The first warp computes the coordinates of its first loads, from kernel parameters that come from memory, while the other warps
        // initialise mbarriers, which takes 70 clocks a stage. Small products in a row take 2 to 6 % less time so.
        const bool fills = !shares && warp == 0 && first_unit < p.tiles;
        GemmPanels<Config> panels;
        if (warp == 0) {
            if (elect_lane()) {
                tensor_map_prefetch(&p.map_a);
                tensor_map_prefetch(&p.map_b);
            }
            if (fills) {
                panels = GemmPanels<Config>(p, first_unit, rank);
                panels.hold();
            }
        } else if (elect_lane()) {
            if (warp == 1) {
                barrier_init(met, 1);
                if (p.halves != 0) barrier_arrive_expect(met, GemmStore<Config>::kHalfBytes);
            }
#pragma unroll 1
            for (int stage = warp - 1; stage < kStages; stage += gemm_threads(Config::kRows) / kWarpThreads - 1) make_stage(stage);
            barrier_init_fence();
        }
        __syncwarp();
        if (!shares) __syncthreads();
        if (cluster > 1) cluster_arrive();
        await_kernel_ahead();
        // The first loads are issued ahead of the branch to the producer's loop, whose instructions have to come from memory. Not where
        // both blocks of a cluster must have started, and not where consumers wait for the producer's registers.
        if (fills && elect_lane()) {
            filled = min(kStages, depth_end - depth_first);
#pragma unroll 1
            for (int stage = 0; stage < filled; ++stage) {
                const uint32_t to = stages + stage * Config::kStageBytes;
                const int depth = (depth_first + stage) * kGemmDepth;
                barrier_arrive_expect(full(stage), Config::kStageBytes);
                panels.load_a(p, to, full(stage), depth);
                panels.load_b(p, to + Config::kBytesA, full(stage), depth);
            }
        }
        __syncwarp();
        if (cluster > 1 && p.halves == 0) cluster_wait();
    }

    const int warpgroup = warp / (kWarpgroupThreads / kWarpThreads);
    if (__builtin_expect(warpgroup == 0, 1)) {
        if constexpr (Config::kMovesRegisters) registers_shrink<40>();
        if (warp == 0 && elect_lane()) {
            int stage = filled == kStages ? 0 : filled;
            uint32_t parity = filled == kStages ? 1 : 0;
            int block = depth_first + filled;
#pragma unroll 1
            for (uint32_t unit = first_unit; unit < p.tiles; unit += units) {
                const GemmPanels<Config> panels(p, unit, rank);
#pragma unroll 1
                for (; block < depth_end; ++block) {
                    const uint32_t a = stages + stage * Config::kStageBytes, b = a + Config::kBytesA;
                    const int depth = block * kGemmDepth;
                    barrier_wait(empty(stage), parity ^ 1);
                    barrier_arrive_expect(full(stage), Config::kStageBytes);
                    panels.load_a(p, a, full(stage), depth);
                    if (kColumns < kGemmPiece || !shares) {
                        panels.load_b(p, b, full(stage), depth);
                    } else {
                        panels.load_share(p, b, full(stage), depth, rank);
                    }
                    if (++stage == kStages) {
                        stage = 0;
                        parity ^= 1;
                    }
                }
                block = depth_first;
            }
        }
        __syncwarp();
        if (!Config::kMovesRegisters && p.halves != 0) {
            cluster_wait();
        } else if (p.splits > 1) {
            cluster_sync();  // All blocks have written their sums.
            cluster_sync();  // And have read them.
        }
    } else {
        if constexpr (Config::kMovesRegisters) registers_grow<232>();
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
            const int64_t row = static_cast<int64_t>(row_tile) * Config::kRows, col = static_cast<int64_t>(place.b) * kColumns;
            if constexpr (kColumns <= kGemmMostHalved) {
                if (p.halves != 0) {
                    cluster_wait();  // The other block has initialised its mbarriers.
                    store.halves(sums, met, place.batch_x, place.batch_y, row, col);
                    break;  // There is only one tile.
                }
            }
            store.tile(sums, place.batch_x, place.batch_y, row, col);
        }
        if (store.pending()) store.store_late([] {});
    }
    if (shares) {  // The other block may still arrive on this one's mbarriers.
        __syncwarp();
        cluster_meet();
    }
}

}  // namespace attile::gpu::sm90
