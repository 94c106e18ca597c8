// SPDX-License-Identifier: Apache-2.0
// What a block of GEMM has to do, and where its stages, strips and mbarriers lie in shared memory: the same for all its threads.
#pragma once

#include "gemm/sm90/arguments.h"
#include "numeric.h"
#include "sm90/cluster.cuh"
#include "sm90/ptx.cuh"

namespace attile::gpu::sm90 {

template <class Config>
struct GemmBlock {
    uint32_t stages, strips, barriers;  // Addresses in shared memory.
    uint32_t cluster, rank;             // Blocks of the cluster, and which of them this is.
    uint32_t first_unit, units;         // The block's work is first_unit, first_unit + units, and so on.
    int depth_first, depth_end;         // Depth of a whole tile that this block sums, in blocks of kGemmDepth.
    bool shares;                        // A panel with the other block of the cluster,
    bool shares_a;                      // and that is A's.
    bool halves;                        // Two blocks share the depth of a tile, and store half of its columns each.

    __device__ __forceinline__ GemmBlock(const GemmArguments &p, const void *memory) {
        stages = (shared_address(memory) + 1023) & ~1023u;
        strips = stages + Config::kStages * Config::kStageBytes;
        barriers = strips + Config::kStripsBytes + Config::kColumns * 4;
        cluster = static_cast<uint32_t>(max(p.multicast, p.splits));
        rank = cluster > 1 ? warp_uniform(cluster_rank()) : 0;
        first_unit = cluster > 1 ? cluster_index() : blockIdx.x;
        units = cluster > 1 ? cluster_count() : gridDim.x;
        const int split = Config::kSplits && p.splits > 1 ? static_cast<int>(rank) : 0;
        depth_first = split * p.depth_each + min(split, p.depth_more);
        depth_end = depth_first + p.depth_each + (split < p.depth_more ? 1 : 0);
        shares = p.multicast > 1;
        shares_a = p.shares_a != 0;
        halves = Config::kHalves && p.halves != 0;
    }

    // A stage's mbarriers: consumers wait for `full`, the producer for `empty`.
    __device__ __forceinline__ uint32_t full(int stage) const { return barriers + 8 * stage; }
    __device__ __forceinline__ uint32_t empty(int stage) const { return barriers + 8 * (Config::kStages + stage); }
    // The mbarrier for the other block's sums, where two blocks share a depth.
    __device__ __forceinline__ uint32_t met() const { return barriers + 16 * Config::kStages; }
    __device__ __forceinline__ void init_stage(const GemmArguments &p, int stage) const {
        barrier_init(full(stage), 1);
        barrier_init(empty(stage), Config::kRows / 16 * static_cast<uint32_t>(p.multicast));
    }
    // Where a stage holds A's panel; B's follows.
    __device__ __forceinline__ uint32_t a(int stage) const { return stages + stage * Config::kStageBytes; }
    __device__ __forceinline__ uint32_t b(int stage) const { return a(stage) + Config::kBytesA; }
};

}  // namespace attile::gpu::sm90
