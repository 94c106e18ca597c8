// SPDX-License-Identifier: Apache-2.0
// GEMM on Hopper's tensor cores: D = activation(alpha A B + beta C + bias), A and B float16 or bfloat16 in any of the four layouts, sums in
// float32, D of their type or float32, batched; TMA's bounds cut the edges. Record: docs/kernels/gemm-sm90.md.
//
// Tiles: 128x256, 192x128, 128x128, 128x64, 64x64, 64x32 or 64x16 by 64 of depth, of the product or of its transpose, and 128x144 to
// 128x240 and 192x176 of the transpose alone (turned.cuh). One producer warpgroup, one consumer warpgroup for every 64 rows. Blocks are
// persistent; the next tile's loads run during the last one's epilogue. Two blocks of a cluster can share B's panel or A's by multicast.
// Few tiles of much depth: blocks of a cluster share a tile's depth, and add their sums through each other's shared memory in order of
// rank, so that results repeat. Tiles beyond whole rounds of the device are cut along the depth, and another kernel adds the parts.
//
// Shared bytes: stages * (rows + columns) * 64 * 2, 4096 for each consumer warp's strip, 4 a column for bias, 1024 for alignment, 16 a
// stage and 16 for barriers: 4 * 49152 + 8 * 4096 + 1024 + 1024 + 80 = 231504 with 128x256. Registers: 168 at launch with 128x256, then 40
// of a producer and 232 of a consumer thread; below 110 at most, of kernels that fuse 168; no spills. One block a multiprocessor. Bound:
// the tensor cores; 128x256 does 85 FLOP a byte of L2, 64x16 does 13.
#pragma once

#include "eight_bits.h"
#include "gemm/sm90/arguments.h"
#include "gemm/sm90/block.cuh"
#include "gemm/sm90/consumer.cuh"
#include "gemm/sm90/epilogue.cuh"
#include "gemm/sm90/producer.cuh"
#include "gemm/sm90/turned.cuh"
#include "numeric.h"
#include "sm90/cluster.cuh"
#include "sm90/ptx.cuh"

namespace attile::gpu::sm90 {

// Source: what A and B are made of; numbers of 8 bits are two an element, and D's elements are then of the type Element, float32 or, of
// int8, int32. Of groups of rows a tile's rows are of one group.
template <class Element_, int kRows_, int kColumns_, int kOuterA_, int kOuterB_, GemmEnd kEnd_, class Source = Element_>
struct GemmConfig {
    using Element = Element_;
    static constexpr bool kResidues = std::is_same_v<Source, GemmResidues>;
    static constexpr bool kIntegers = std::is_same_v<Source, I8> || kResidues,
                          kColumnScales = std::is_same_v<Source, GemmGrouped<E4M3, true>>;
    static constexpr bool kGroups = std::is_same_v<Source, GemmGrouped<E4M3, false>> || kColumnScales;
    static constexpr bool kFloats8 = std::is_same_v<Source, E4M3> || kGroups;
    static constexpr bool kRowGroups = std::is_same_v<Source, GemmRowGroups<Element>>;
    using Sum = std::conditional_t<kIntegers, int32_t, float>;
    static constexpr GemmEnd kEnd = kEnd_;
    static constexpr bool kTurned = kEnd == GemmEnd::kTurned || kEnd == GemmEnd::kTurnedFused;
    static constexpr bool kFuses = kEnd == GemmEnd::kFused || kEnd == GemmEnd::kTurnedFused;
    static constexpr bool kHalves = kEnd == GemmEnd::kPlain && kColumns_ <= kGemmMostHalved;  // If the arguments say so.
    static constexpr bool kSplits = kEnd == GemmEnd::kGeneral || kHalves;
    static constexpr int kRows = kRows_, kColumns = kColumns_, kOuterA = kOuterA_, kOuterB = kOuterB_;
    static constexpr int kStages = gemm_stages(kRows, kColumns, kOuterB != 0);
    static constexpr int kBytesA = kRows * kGemmDepth * 2;
    static constexpr int kStageBytes = gemm_stage_bytes(kRows, kColumns, kOuterB != 0);
    static constexpr int kPiecesB = (kColumns + kGemmPiece - 1) / kGemmPiece;
    static constexpr int kPieceBytes = kGemmPiece * kGemmDepth * 2;
    static constexpr int kStripBytes = gemm_strip_bytes(kRows, kTurned), kStripsBytes = kRows / 16 * kStripBytes;
    static constexpr bool kMovesRegisters =
        kColumns > 128 || kRows > 128 || kGroups;  // From the producer to the consumers; else all have enough.
    static constexpr int kConsumerRegisters = kRows > 128 ? 152 : 232;
    static_assert(gemm_shared_bytes({kRows, kColumns, kTurned}, kOuterB != 0) <= kGemmSharedLimit, "what a block can have");
    static_assert(!kTurned || (kOuterB == 0 && kColumns % 16 == 0), "halves of B are whole groups of eight rows");
    static_assert(!(kIntegers || kFloats8) || (kEnd == GemmEnd::kFused && kOuterA == 0 && kOuterB == 0), "what there is of them");
    static_assert(!kRowGroups || (kTurned && kMovesRegisters), "what there is of them: their tiles are known after what runs ahead");
    static_assert(kStageBytes % 1024 == 0, "swizzled panels start at multiples of 1024");
    static_assert(kRows * kColumns * 4 <= kStages * kStageBytes, "a split's sums take the stages' place");
};

// Makes ready what the block's threads share, and returns the number of stages whose first loads are then on their way.
template <class Config>
__device__ __forceinline__ int gemm_start(const GemmArguments &p, const GemmBlock<Config> &block, int warp) {
    if constexpr (Config::kMovesRegisters) {
        if (warp == 0 && elect_lane()) {
            tensor_map_prefetch(&p.map_a);
            tensor_map_prefetch(&p.map_b);
#pragma unroll 1
            for (int stage = 0; stage < Config::kStages; ++stage) block.init_stage(p, stage);
            barrier_init_fence();
        }
        if (block.cluster > 1) {
            cluster_meet();
        } else {
            __syncthreads();
        }
        await_kernel_ahead();
        return 0;
    } else {
        // The first warp computes the coordinates of its first loads, from kernel parameters that come from memory, while the other warps
        // initialise mbarriers, which takes 70 clocks a stage. Small products in a row take 2 to 6 % less time so.
        const bool fills = !block.shares && warp == 0 && block.first_unit < p.units;
        GemmPanels<Config> panels;
        if (warp == 0) {
            if (elect_lane()) {
                tensor_map_prefetch(&p.map_a);
                tensor_map_prefetch(&p.map_b);
            }
            if (fills) {
                panels = GemmPanels<Config>(p, GemmWork(p, block, block.first_unit).tile, block.rank);
                panels.hold();
            }
        } else if (elect_lane()) {
            if (warp == 1) {
                barrier_init(block.met(), 1);
                if (block.halves) barrier_arrive_expect(block.met(), GemmStore<Config>::kHalfBytes);
            }
            constexpr int kWarps = gemm_threads(Config::kRows) / kWarpThreads - 1;
#pragma unroll 1
            for (int stage = warp - 1; stage < Config::kStages; stage += kWarps) block.init_stage(p, stage);
            barrier_init_fence();
        }
        __syncwarp();
        if (!block.shares) __syncthreads();
        if (block.cluster > 1) cluster_arrive();
        await_kernel_ahead();
        // The first loads are issued ahead of the branch to the producer's loop, whose instructions have to come from memory. Not where
        // both blocks of a cluster must have started, and not where consumers wait for the producer's registers.
        int filled = 0;
        if (fills && elect_lane()) filled = gemm_fill(p, block, panels);
        __syncwarp();
        if (block.cluster > 1 && !block.halves) cluster_wait();
        return filled;
    }
}

template <class Config>
__global__ void ATTILE_LAUNCH_BOUNDS(gemm_threads(Config::kRows), 1) gemm_kernel(const __grid_constant__ GemmArguments p) {
    extern __shared__ unsigned char dynamic_shared[];
    const GemmBlock<Config> block(p, dynamic_shared);
    const int warp = warp_uniform(static_cast<int>(threadIdx.x) / kWarpThreads);
    const int filled = gemm_start(p, block, warp);

    const int warpgroup = warp / (kWarpgroupThreads / kWarpThreads);
    if (__builtin_expect(warpgroup == 0, 1)) {
        if constexpr (Config::kMovesRegisters) registers_shrink<40>();
        if (warp == 0 && elect_lane()) gemm_produce(p, block, filled);
        __syncwarp();
        if (block.halves) {
            cluster_wait();
        } else if (Config::kSplits && p.splits > 1) {
            cluster_sync();  // All blocks have written their sums.
            cluster_sync();  // And have read them.
        }
    } else {
        if constexpr (Config::kMovesRegisters) registers_grow<Config::kConsumerRegisters>();
        if constexpr (Config::kGroups)
            gemm_consume_groups(p, block, warpgroup - 1);
        else
            gemm_consume(p, block, warpgroup - 1);
    }
}

}  // namespace attile::gpu::sm90
