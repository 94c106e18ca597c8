// SPDX-License-Identifier: Apache-2.0
// The kernel of attention's gradients: its shared memory, its barriers, and the tiles it walks.
#pragma once

#include "attention_backward/mma/modify.cuh"
#include "attention_backward/mma/site.cuh"
#include "attention_backward/sm90/arguments.h"
#include "attention_backward/tiles.h"
#include "sm90/ptx.cuh"

namespace attile::gpu::sm90 {

inline constexpr int kWarpgroups = BackwardShape::warpgroups();
inline constexpr int kAdders = 3;  // Producer warps that add dQ to the sums in memory, a step each.

// Addresses in shared memory. Mbarriers come in pairs: readers wait for `full`, writers for `empty`.
template <class Config>
struct BackwardShared {
    static constexpr BackwardShape kShape = Config::kShape;
    static constexpr int kStages = kShape.stages();
    static constexpr bool kSums = true;  // dQ is summed in memory.
    uint32_t k;

    __device__ __forceinline__ explicit BackwardShared(void *memory) : k(shared_address(memory)) {}
    __device__ __forceinline__ uint32_t v() const { return k + kShape.keys_bytes(); }
    __device__ __forceinline__ uint32_t q(uint32_t stage) const { return v() + kShape.keys_bytes() + stage * kShape.rows_bytes(); }
    __device__ __forceinline__ uint32_t dout(uint32_t stage) const { return q(kStages) + stage * kShape.rows_bytes(); }
    __device__ __forceinline__ uint32_t scores(uint32_t stage) const { return dout(kStages) + stage * kShape.scores_bytes(); }
    __device__ __forceinline__ uint32_t sums(uint32_t stage) const { return scores(kStages) + stage * kShape.sums_bytes(); }
    __device__ __forceinline__ uint32_t numbers(uint32_t stage) const { return sums(kStages) + stage * kShape.number_bytes(); }
    __device__ __forceinline__ uint32_t barrier(uint32_t number) const { return numbers(kStages) + 8 * number; }
    __device__ __forceinline__ uint32_t q_full(uint32_t stage) const { return barrier(stage); }
    __device__ __forceinline__ uint32_t dout_full(uint32_t stage) const { return barrier(kStages + stage); }
    __device__ __forceinline__ uint32_t rows_empty(uint32_t stage) const { return barrier(2 * kStages + stage); }
    __device__ __forceinline__ uint32_t work_full(uint32_t stage) const { return barrier(3 * kStages + stage); }
    __device__ __forceinline__ uint32_t work_empty(uint32_t stage) const { return barrier(3 * kStages + 2 + stage); }
    __device__ __forceinline__ uint32_t keys_full() const { return barrier(3 * kStages + 4); }
    __device__ __forceinline__ uint32_t keys_empty() const { return barrier(3 * kStages + 5); }
    __device__ __forceinline__ uint32_t sums_full(uint32_t adder) const { return barrier(3 * kStages + 6 + adder); }
    __device__ __forceinline__ uint32_t sums_empty(uint32_t stage) const { return barrier(3 * kStages + 6 + kAdders + stage); }
    __device__ __forceinline__ uint32_t scores_full(uint32_t stage) const { return barrier(4 * kStages + 6 + kAdders + stage); }
    __device__ __forceinline__ uint32_t scores_empty(uint32_t stage) const { return barrier(5 * kStages + 6 + kAdders + stage); }
    // A tile's number, and under a mask of blocks its count of steps.
    __device__ __forceinline__ uint32_t work(uint32_t stage) const { return barrier(6 * kStages + 6 + kAdders) + 8 * stage; }
    // Under a mask of blocks: BackwardStep.
    __device__ __forceinline__ uint32_t told(uint32_t step) const { return barrier(32) + 16 * (step % kShape.told_steps()); }

    // Of a consumer warp, counted from the first one.
    __device__ __forceinline__ uint32_t record(int warp) const { return barrier(32) + kModifierRecord * warp; }

    __device__ __forceinline__ void init() const {
        constexpr uint32_t kComputing = kWarpgroups * kWarpgroupThreads / kWarpThreads;  // One lane arrives for each warp.
        for (uint32_t i = 0; i < kStages; ++i) {
            barrier_init(q_full(i), 1);
            barrier_init(dout_full(i), 1);
            barrier_init(rows_empty(i), kComputing);
            barrier_init(sums_empty(i), 1);
            barrier_init(scores_full(i), kComputing);
            barrier_init(scores_empty(i), kComputing);
        }
        for (uint32_t i = 0; i < kAdders; ++i) barrier_init(sums_full(i), kComputing);
        for (uint32_t i = 0; i < 2; ++i) {
            barrier_init(work_full(i), 1);
            barrier_init(work_empty(i), kComputing + kAdders);
        }
        barrier_init(keys_full(), 1);
        barrier_init(keys_empty(), kComputing);
        barrier_init_fence();
    }
};

// A block of keys and the tiles of rows that see any of them: those of each query head of the group, the last tile first.
//
// Blocks of a gang see the same rows and run at the same time. If all began with the same tile, each would wait for the sums of those
// before it. So they begin with different tiles and wrap around, and a tile's sums are added in the order in which blocks come to it: the
// block that needs fewer steps to the tile comes first. A block only ever waits for one that came there in fewer steps. So no two wait for
// each other as long as all of them run. They begin near each other where all rows do not fit the L2 cache.
struct BackwardWalk {
    BackwardSite site;
    int first, end, first_head, heads;
    int member, members;  // Of the gang.
    int apart;

    __device__ __forceinline__ BackwardWalk(const BackwardArguments &a, int keys, int index)
        : site(backward_site<true>(a, keys, index)), heads(static_cast<int>(a.p.forward.group.divisor)) {
        const Span tiles = row_tiles_of(a.p, site.entry, site.first);
        first = tiles.first;
        end = tiles.end;
        first_head = site.head * heads;
        const int block = site.first / keys;
        member = block % a.gang;
        members = min(a.gang, (site.entry.len_k + keys - 1) / keys - (block - member));
        apart = a.apart;
    }
    __device__ __forceinline__ int steps() const { return (end - first) * heads; }
    // How many steps the block skips at first and makes at the end.
    __device__ __forceinline__ int start() const { return members > 1 ? min(member * steps() / members, member * apart) : 0; }
    __device__ __forceinline__ int start_head() const { return first_head + start() / max(end - first, 1); }
    __device__ __forceinline__ int start_tile() const { return end - 1 - start() % max(end - first, 1); }
    // Of the block's step i.
    __device__ __forceinline__ void at(int i, int &head, int &tile) const {
        int place = start() + i;
        if (place >= steps()) place -= steps();
        const int of_group = place / (end - first);
        head = first_head + of_group;
        tile = end - 1 - (place - of_group * (end - first));
    }
    __device__ __forceinline__ void advance(int &head, int &tile) const {
        if (--tile >= first) return;
        tile = end - 1;
        if (++head == first_head + heads) head = first_head;
    }
    // How many blocks add their part to a tile's sums before this one.
    __device__ __forceinline__ int dq_order(const BackwardArguments &a, int head, int tile) const {
        const int block = site.first / a.p.block_keys, ahead = block - key_blocks_of(a.p, site.entry, tile * a.p.block_rows).first;
        if (members <= 1) return ahead;
        // `near` members of the gang begin at or before this step, the last of them nearest to it. The others wrap around, again the last
        // first.
        const int step = (head - first_head) * (end - first) + end - 1 - tile,
                  near = min(members, max(((step + 1) * members - 1) / steps(), step / apart) + 1);
        return ahead - member + (member < near ? near - 1 - member : near + members - 1 - member);
    }
    // Of the launch.
    __device__ __forceinline__ int64_t head_of_launch(const BackwardArguments &a, int head) const {
        return static_cast<int64_t>(site.entry.batch) * a.p.forward.heads.divisor + head - static_cast<int64_t>(a.p.first_pair) * heads;
    }
};

// Hidden pairs have a gradient of zero, and zero times a NaN or infinity of an operand is NaN. So sums that are not finite are made again,
// pair by pair. Sums that are finite never met one.
template <int kCount>
__device__ __forceinline__ bool is_finite(const float (&x)[kCount]) {
    float zero = 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i) zero = fmaf(x[i], 0.0f, zero);
    return zero == 0;
}
__device__ __forceinline__ void mark_irregular(const AttentionBackwardParams &p, int batch, int head_kv) {
    p.irregular[batch * p.heads_kv.divisor + head_kv] = p.irregular[-1] = 1;  // Every thread that finds one writes the same.
}

}  // namespace attile::gpu::sm90
