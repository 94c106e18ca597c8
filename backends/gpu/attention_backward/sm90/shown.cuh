// SPDX-License-Identifier: Apache-2.0
// Under a mask of blocks: which tiles of rows a block of keys has, and in which order the blocks of keys of a tile add to its dQ. One warp
// looks, and tells the others of a step in shared memory when it loads the step's rows.
//
// A tile's parts of dQ are added in the order of their keys, as without such a mask. How many blocks before a block are shown would take a
// look at all of them; so the semaphore says which block is next, and a block that is done looks for the one after it.
#pragma once

#include "attention_backward/sm90/shared.cuh"

namespace attile::gpu::sm90 {

struct BackwardStep {
    int tile, head;  // Of rows; the query head.
    uint32_t flags;  // Of those below.
    uint32_t next;   // The number of the block that adds to the tile's dQ next, as own_order() gives it; the largest if there is none.

    static constexpr uint32_t kFirstOfTile = 1, kLast = 2;  // No block adds to the tile's dQ before; no step of this block comes after.
    __device__ __forceinline__ static BackwardStep read(uint32_t from) {
        BackwardStep step;
        asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(step.tile), "=r"(step.head), "=r"(step.flags), "=r"(step.next)
                     : "r"(from)
                     : "memory");
        return step;
    }
    __device__ __forceinline__ void write(uint32_t to) const {
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(tile), "r"(head), "r"(flags), "r"(next) : "memory");
    }
    // One of them alone.
    static __device__ __forceinline__ int read_tile(uint32_t from) {
        int tile;
        asm volatile("ld.shared.b32 %0, [%1];" : "=r"(tile) : "r"(from) : "memory");
        return tile;
    }
    static __device__ __forceinline__ uint32_t read_flags(uint32_t from) {
        uint32_t flags;
        asm volatile("ld.shared.b32 %0, [%1 + 8];" : "=r"(flags) : "r"(from) : "memory");
        return flags;
    }
    // Not 0, which a semaphore is at first.
    static __device__ __forceinline__ uint32_t own_order(const BackwardWalk &walk, int keys) {
        return static_cast<uint32_t>(walk.site.first / keys) + 1;
    }
};

// Of a warp, all lanes of which call: each looks at one of 32 tiles, and finds out all about it if it is shown, for one after the other
// would take longer than a step. Goes as BackwardWalk does.
template <class Shared>
class BackwardShownTiles {
    static constexpr int kKeys = Shared::kShape.keys, kRows = Shared::kShape.rows;
    static_assert(ATTILE_MASK_BLOCK % kKeys == 0 && ATTILE_MASK_BLOCK % kRows == 0, "a tile is of one block of the mask");

  public:
    __device__ __forceinline__ BackwardShownTiles(const BackwardArguments &a, const BackwardWalk &walk)
        : a_(a), walk_(walk), steps_(walk.steps()) {}

    __device__ __forceinline__ int count() const {
        int count = 0, head, tile;
#pragma unroll 4
        for (int first = 0; first < steps_; first += kWarpThreads) count += __popc(look(first, tile, head));
        return count;
    }
    // The next shown tile, of which there is one.
    __device__ __forceinline__ BackwardStep next(bool is_last) {
        while (shown_ == 0) {
            shown_ = look(looked_, own_.tile, own_.head);
            if (Shared::kSums && (shown_ >> lane_index() & 1) != 0) find_order();
            looked_ += kWarpThreads;
            __syncwarp();
        }
        const int lane = __ffs(static_cast<int>(shown_)) - 1;
        shown_ &= shown_ - 1;
        BackwardStep step;
        step.tile = __shfl_sync(~0u, own_.tile, lane);
        step.head = __shfl_sync(~0u, own_.head, lane);
        step.flags = __shfl_sync(~0u, own_.flags, lane) | (is_last ? BackwardStep::kLast : 0);
        step.next = __shfl_sync(~0u, own_.next, lane);
        return step;
    }

  private:
    __device__ __forceinline__ uint32_t look(int first, int &tile, int &head) const {
        const int place = first + lane_index();
        bool shows = false;
        if (place < steps_) {
            walk_.at(place, head, tile);
            shows = *row_of(head, tile, walk_.site.first / kKeys) != 0;
        }
        return __ballot_sync(~0u, shows);
    }
    // What the mask says of a tile and a block of keys.
    __device__ __forceinline__ const uint8_t *row_of(int head, int tile, int key_block) const {
        const AttentionMask &mask = a_.p.forward.block_mask;
        return mask.data + walk_.site.entry.batch * mask.stride[0] + head * mask.stride[1] +
               tile * kRows / ATTILE_MASK_BLOCK * mask.stride[2] + key_block * kKeys / ATTILE_MASK_BLOCK * mask.stride[3];
    }
    // Of the lane's tile. Four blocks of keys are looked at together, those behind the last or before the first as if they were these.
    __device__ __forceinline__ void find_order() {
        constexpr int kTogether = 4;
        static_assert(!Shared::kSums || kKeys == ATTILE_MASK_BLOCK, "a block of keys is one of the mask");
        const Span blocks = key_blocks_of(a_.p, walk_.site.entry, own_.tile * kRows);
        const int own = walk_.site.first / kKeys;
        const int64_t stride = a_.p.forward.block_mask.stride[3];
        const uint8_t *const row = row_of(own_.head, own_.tile, 0);
        own_.flags = BackwardStep::kFirstOfTile;
        for (int last = own - 1; last >= blocks.first && own_.flags != 0; last -= kTogether) {
            uint8_t any = 0;
#pragma unroll
            for (int i = 0; i < kTogether; ++i) any |= row[max(last - i, blocks.first) * stride];
            if (any != 0) own_.flags = 0;
        }
        own_.next = ~0u;
        for (int first = own + 1; first < blocks.end && own_.next == ~0u; first += kTogether) {
            uint8_t shown[kTogether];
#pragma unroll
            for (int i = 0; i < kTogether; ++i) shown[i] = row[min(first + i, blocks.end - 1) * stride];
#pragma unroll
            for (int i = kTogether - 1; i >= 0; --i)
                if (shown[i] != 0) own_.next = static_cast<uint32_t>(min(first + i, blocks.end - 1)) + 1;
        }
    }

    const BackwardArguments &a_;
    const BackwardWalk &walk_;
    const int steps_;
    uint32_t shown_ = 0;
    int looked_ = 0;
    BackwardStep own_ = {};
};

}  // namespace attile::gpu::sm90
