// SPDX-License-Identifier: Apache-2.0
// The attention kernel's shared memory: work tiles, pipeline stages of Q, K and V, and their mbarriers.
#pragma once

#include "attention/mma/work_tile.cuh"
#include "sm90/ptx.cuh"

namespace attile::gpu::sm90 {

inline constexpr int kWarpsOfGroup = kWarpgroupThreads / kWarpThreads;
// Stages for work tiles: the current tile, the next one, and, with run_on, the one before, whose rows are still being stored.
template <class Config>
inline constexpr int kWorkStages = Config::kShape.run_on ? 3 : 2;
inline constexpr int kMostWorkStages = 3;
inline constexpr int kWorkBytes = kMostWorkStages * static_cast<int>(sizeof(AttentionWorkTile));

// Addresses in shared memory. Mbarriers come in pairs: consumers wait for `full`, the producer for `empty`.
template <class Config>
struct AttentionShared {
    AttentionWorkTile *work_tiles;
    uint32_t q, k, v, o, strips, distances, barriers;

    __device__ __forceinline__ explicit AttentionShared(void *memory)
        : work_tiles(static_cast<AttentionWorkTile *>(memory)),
          // Kept, since the compiler would otherwise compute it wherever it is needed, beginning with the block's rank in its cluster.
          q((shared_address(memory) + kWorkBytes + 1023) & ~1023u),
          k(q + Config::kShape.q_stages() * Config::kShape.q_bytes()),
          v(k + Config::kShape.stages * Config::kShape.k_bytes()),
          o(v + Config::kShape.stages * Config::kShape.v_bytes()),
          strips(o + Config::kShape.o_bytes()),
          distances(strips + Config::kShape.strip_bytes()),
          barriers(distances + Config::kShape.distances_bytes()) {}
    __device__ __forceinline__ uint32_t k_full(int stage) const { return barriers + 8 * stage; }
    __device__ __forceinline__ uint32_t k_empty(int stage) const { return barriers + 8 * (Config::kShape.stages + stage); }
    __device__ __forceinline__ uint32_t v_full(int stage) const { return barriers + 8 * (2 * Config::kShape.stages + stage); }
    __device__ __forceinline__ uint32_t v_empty(int stage) const { return barriers + 8 * (3 * Config::kShape.stages + stage); }
    __device__ __forceinline__ uint32_t q_full(int stage) const { return barriers + 8 * (4 * Config::kShape.stages + stage); }
    __device__ __forceinline__ uint32_t q_empty(int stage) const { return barriers + 8 * (4 * Config::kShape.stages + 2 + stage); }
    __device__ __forceinline__ uint32_t work_full(int stage) const { return barriers + 8 * (4 * Config::kShape.stages + 4 + stage); }
    __device__ __forceinline__ uint32_t work_empty(int stage) const {
        return barriers + 8 * (4 * Config::kShape.stages + 4 + kMostWorkStages + stage);
    }

    // The tile that is loaded is near its end: the next one may be drawn.
    __device__ __forceinline__ uint32_t draw() const { return barriers + 8 * (4 * Config::kShape.stages + 4 + 2 * kMostWorkStages); }
    __device__ __forceinline__ uint32_t strip_full(int stage) const { return draw() + 8 * (1 + stage); }
    __device__ __forceinline__ uint32_t strip_empty(int stage) const { return strip_full(kAttentionStripStages + stage); }
    // Of a stage of K: a bit for each eight keys whose page is missing.
    __device__ __forceinline__ uint32_t missing_keys(int stage) const {
        uint32_t word;
        asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(missing_word(stage)) : "memory");
        return word;
    }
    __device__ __forceinline__ void set_missing_keys(int stage, uint32_t word) const {
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(missing_word(stage)), "r"(word) : "memory");
    }
    __device__ __forceinline__ uint32_t missing_word(int stage) const {
        static_assert(!(Config::kShape.paged && Config::kShape.loads_strips()), "words of pages are where strips have their barriers");
        return strip_full(0) + 4 * stage;
    }

    __device__ __forceinline__ void init() const {
        constexpr uint32_t kReaders = kWarpsOfGroup * Config::kShape.warpgroups;  // One lane arrives for each warp.
        for (int stage = 0; stage < Config::kShape.stages; ++stage) {
            barrier_init(k_full(stage), 1);
            barrier_init(v_full(stage), 1);
            barrier_init(k_empty(stage), kReaders);
            barrier_init(v_empty(stage), kReaders);
        }
        for (int stage = 0; stage < 2; ++stage) {
            barrier_init(q_full(stage), 1);
            barrier_init(q_empty(stage), kReaders);
        }
        for (int stage = 0; stage < kMostWorkStages; ++stage) {
            barrier_init(work_full(stage), 1);
            barrier_init(work_empty(stage), kReaders + 1);  // The producer reads them, too.
        }
        barrier_init(draw(), 1);
        for (int stage = 0; Config::kShape.loads_strips() && stage < kAttentionStripStages; ++stage) {
            barrier_init(strip_full(stage), 1);
            barrier_init(strip_empty(stage), kReaders);
        }
        barrier_init_fence();
    }
};
inline constexpr int kMostStages = 4;
static_assert(8 * (4 * kMostStages + 4 + 2 * kMostWorkStages + 1 + 2 * kAttentionStripStages) <= 256 &&
                  4 * kMostStages <= 16 * kAttentionStripStages && kWorkBytes <= 512,
              "as AttentionShape::shared_bytes() has it");

// A stage of a ring and the parity of its phase.
template <int kStages>
struct Ring {
    int stage = 0;
    uint32_t parity = 0;
    __device__ __forceinline__ void advance() {
        if (++stage == kStages) {
            stage = 0;
            parity ^= 1;
        }
    }
};

}  // namespace attile::gpu::sm90
