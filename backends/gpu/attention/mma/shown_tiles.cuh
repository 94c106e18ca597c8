// SPDX-License-Identifier: Apache-2.0
// The key tiles of a work tile that the block mask shows, from the last to the first. A work tile's rows are of one block of rows.
#pragma once

#include "attention/mma/work_tile.cuh"

namespace attile::gpu::mma {

// Of a warp, all lanes of which call: a lane looks at one of 32 blocks of keys.
template <int kKeys>
class ShownTiles {
    static_assert(ATTILE_MASK_BLOCK % kKeys == 0, "a tile's keys are of one block");
    static constexpr int kTilesOfBlock = ATTILE_MASK_BLOCK / kKeys;

  public:
    __device__ __forceinline__ void begin(const AttentionParams &p, const AttentionWorkTile &work) {
        const AttentionMask &mask = p.block_mask;
        row_ = mask.data == nullptr
                   ? nullptr
                   : mask.data + work.batch * mask.stride[0] + work.head * static_cast<int>(p.pack.divisor) * mask.stride[1] +
                         query_row(p, work.first_row) / ATTILE_MASK_BLOCK * mask.stride[2];
        first_tile_ = work.first_tile;
        blocks_ = (work.len_k + ATTILE_MASK_BLOCK - 1) / ATTILE_MASK_BLOCK;
        group_ = -1;
    }
    // The last shown tile before `tile`; -1: there is none.
    __device__ __forceinline__ int before(const AttentionParams &p, int tile) {
        const int found = find(p, tile - 1);
        __syncwarp();  // Otherwise ptxas takes the warp for divergent, and no value for uniform.
        return warp_uniform(found);
    }

  private:
    __device__ __forceinline__ int find(const AttentionParams &p, int tile) {
        if (row_ == nullptr) return tile >= first_tile_ ? tile : -1;
        while (tile >= first_tile_) {
            const int block = tile / kTilesOfBlock;
            if (block / kWarpThreads != group_) look(p, block / kWarpThreads);
            const uint32_t shown = shown_ << (kWarpThreads - 1 - block % kWarpThreads);  // The block's bit first.
            if (shown == 0) {
                tile = group_ * kWarpThreads * kTilesOfBlock - 1;
                continue;
            }
            const int hidden = __clz(static_cast<int>(shown));
            if (hidden == 0) return tile;
            tile = (block - hidden + 1) * kTilesOfBlock - 1;
        }
        return -1;
    }
    __device__ __forceinline__ void look(const AttentionParams &p, int group) {
        const int block = group * kWarpThreads + lane_index();
        group_ = group;
        shown_ = __ballot_sync(~0u, block < blocks_ && row_[block * p.block_mask.stride[3]] != 0);
    }
    const uint8_t *row_;
    int first_tile_, blocks_;
    int group_;  // Of 32 blocks, whose bits `shown_` has.
    uint32_t shown_;
};

// Of a work tile, whose shown tiles begin: the last one; where there is none, one of which all keys are hidden.
template <int kKeys>
__device__ __forceinline__ int first_shown(const AttentionParams &p, const AttentionWorkTile &work, ShownTiles<kKeys> &shown) {
    const int tile = shown.before(p, work.end_tile);
    return tile >= 0 ? tile : work.end_tile - 1;
}

}  // namespace attile::gpu::mma
