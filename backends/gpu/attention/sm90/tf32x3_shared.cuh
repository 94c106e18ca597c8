// SPDX-License-Identifier: Apache-2.0
// Shared memory of the tf32x3 kernel: the work tile, Q, a ring of pieces of K and V, and their mbarriers.
#pragma once

#include "attention/sm90/shared.cuh"
#include "attention/sm90/tf32x3_shapes.h"

namespace attile::gpu::sm90 {

template <class Config>
struct AttentionTf32x3Shared {
    static constexpr int kStages = Config::kShape.pieces, kBarriers = 512;
    static_assert(sizeof(AttentionWorkTile) <= kBarriers && kBarriers + 16 * kStages <= Config::kShape.kWorkBytes,
                  "the work tile and the barriers");

    AttentionWorkTile *work;
    uint32_t start, pieces, q;

    __device__ __forceinline__ explicit AttentionTf32x3Shared(void *memory)
        : work(static_cast<AttentionWorkTile *>(memory)),
          start(shared_address(memory)),
          pieces(warp_uniform((start + Config::kShape.kWorkBytes + 1023) & ~1023u)),
          q(pieces + kStages * Config::kShape.kPieceBytes) {}
    __device__ __forceinline__ uint32_t piece(int stage) const { return pieces + stage * Config::kShape.kPieceBytes; }
    // Consumers wait for `full`, producers for `empty`.
    __device__ __forceinline__ uint32_t full(int stage) const { return start + kBarriers + 8 * stage; }
    __device__ __forceinline__ uint32_t empty(int stage) const { return start + kBarriers + 8 * (kStages + stage); }

    __device__ __forceinline__ void init() const {
        for (int stage = 0; stage < kStages; ++stage) {
            barrier_init(full(stage), kWarpsOfGroup);  // One lane arrives for each warp.
            barrier_init(empty(stage), kWarpsOfGroup * Config::kShape.warpgroups);
        }
        barrier_init_fence();
    }
};

}  // namespace attile::gpu::sm90
