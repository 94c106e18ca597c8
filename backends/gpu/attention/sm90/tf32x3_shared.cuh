// SPDX-License-Identifier: Apache-2.0
// Shared memory of the tf32x3 kernel: the tile's note, Q, a ring of pieces of K and V, and their barriers.
#pragma once

#include "attention/sm90/shared.cuh"
#include "attention/sm90/tf32x3_shapes.h"

namespace attile::gpu::sm90 {

template <class Config>
struct AttentionTf32x3Shared {
    static constexpr int kPlaces = Config::kShape.pieces, kBarriers = 512;
    static_assert(sizeof(AttentionTileNote) <= kBarriers && kBarriers + 16 * kPlaces <= Config::kShape.kNoteBytes,
                  "the places of the note and the barriers");

    AttentionTileNote *note;
    uint32_t start, pieces, q;

    __device__ __forceinline__ explicit AttentionTf32x3Shared(void *memory)
        : note(static_cast<AttentionTileNote *>(memory)),
          start(shared_address(memory)),
          pieces(warp_uniform((start + Config::kShape.kNoteBytes + 1023) & ~1023u)),
          q(pieces + kPlaces * Config::kShape.kPieceBytes) {}
    __device__ __forceinline__ uint32_t piece(int place) const { return pieces + place * Config::kShape.kPieceBytes; }
    // `full` is for those who multiply, `empty` for those who load.
    __device__ __forceinline__ uint32_t full(int place) const { return start + kBarriers + 8 * place; }
    __device__ __forceinline__ uint32_t empty(int place) const { return start + kBarriers + 8 * (kPlaces + place); }

    __device__ __forceinline__ void init() const {
        for (int place = 0; place < kPlaces; ++place) {
            barrier_init(full(place), kWarpsOfGroup);  // One lane of each warp says that it has written, or read.
            barrier_init(empty(place), kWarpsOfGroup * Config::kShape.warpgroups);
        }
        barrier_init_fence();
    }
};

}  // namespace attile::gpu::sm90
