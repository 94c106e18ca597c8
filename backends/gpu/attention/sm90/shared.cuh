// SPDX-License-Identifier: Apache-2.0
// The attention kernel's shared memory: Q, rings of K and V, their barriers, and the notes about tiles.
#pragma once

#include "attention/mma/note.cuh"
#include "sm90/ptx.cuh"

namespace attile::gpu::sm90 {

inline constexpr int kWarpsOfGroup = kWarpgroupThreads / kWarpThreads;
// Places for notes: of the tile at work, of the next one, and of the one before whose rows are still being stored, if there is such. No
// more, since whoever notes a tile has taken it from others who may be free earlier.
template <class Config>
inline constexpr int kNotes = Config::kShape.run_on ? 3 : 2;
inline constexpr int kMostNotes = 3;
inline constexpr int kNoteBytes = kMostNotes * static_cast<int>(sizeof(AttentionTileNote));

// Where things are in shared memory. Barriers come in pairs: `full` is for those who read, `empty` for the loading thread.
template <class Config>
struct AttentionShared {
    AttentionTileNote *notes;
    uint32_t q, k, v, o, strips, barriers;

    __device__ __forceinline__ explicit AttentionShared(void *memory)
        : notes(static_cast<AttentionTileNote *>(memory)),
          // Else the compiler works it out anew wherever it is needed, beginning with the block's number in its cluster.
          q((shared_address(memory) + kNoteBytes + 1023) & ~1023u),
          k(q + Config::kShape.q_places() * Config::kShape.q_bytes()),
          v(k + Config::kShape.stages * Config::kShape.k_bytes()),
          o(v + Config::kShape.stages * Config::kShape.v_bytes()),
          strips(o + Config::kShape.o_bytes()),
          barriers(strips + Config::kShape.strip_bytes()) {}
    __device__ __forceinline__ uint32_t k_full(int stage) const { return barriers + 8 * stage; }
    __device__ __forceinline__ uint32_t k_empty(int stage) const { return barriers + 8 * (Config::kShape.stages + stage); }
    __device__ __forceinline__ uint32_t v_full(int stage) const { return barriers + 8 * (2 * Config::kShape.stages + stage); }
    __device__ __forceinline__ uint32_t v_empty(int stage) const { return barriers + 8 * (3 * Config::kShape.stages + stage); }
    __device__ __forceinline__ uint32_t q_full(int place) const { return barriers + 8 * (4 * Config::kShape.stages + place); }
    __device__ __forceinline__ uint32_t q_empty(int place) const { return barriers + 8 * (4 * Config::kShape.stages + 2 + place); }
    __device__ __forceinline__ uint32_t note_full(int place) const { return barriers + 8 * (4 * Config::kShape.stages + 4 + place); }
    __device__ __forceinline__ uint32_t note_empty(int place) const {
        return barriers + 8 * (4 * Config::kShape.stages + 4 + kMostNotes + place);
    }

    __device__ __forceinline__ void init() const {
        constexpr uint32_t kReaders = kWarpsOfGroup * Config::kShape.warpgroups;  // One lane of each warp says that it has read.
        for (int stage = 0; stage < Config::kShape.stages; ++stage) {
            barrier_init(k_full(stage), 1);
            barrier_init(v_full(stage), 1);
            barrier_init(k_empty(stage), kReaders);
            barrier_init(v_empty(stage), kReaders);
        }
        for (int place = 0; place < 2; ++place) {
            barrier_init(q_full(place), 1);
            barrier_init(q_empty(place), kReaders);
        }
        for (int place = 0; place < kMostNotes; ++place) {
            barrier_init(note_full(place), 1);
            barrier_init(note_empty(place), kReaders + 1);  // The loading thread reads them, too.
        }
        barrier_init_fence();
    }
};
static_assert(8 * (4 * 5 + 4 + 2 * kMostNotes) <= 256 && kNoteBytes <= 512, "as AttentionShape::shared_bytes() has it");

// A place in a ring and the parity of its phase.
template <int kPlaces>
struct Ring {
    int place = 0;
    uint32_t parity = 0;
    __device__ __forceinline__ void advance() {
        if (++place == kPlaces) {
            place = 0;
            parity ^= 1;
        }
    }
};

}  // namespace attile::gpu::sm90
