// SPDX-License-Identifier: Apache-2.0
// A consumer warpgroup's pipeline stages of Q, K and V, and the ping-pong order in which warpgroups issue products.
#pragma once

#include "attention/sm90/shared.cuh"

namespace attile::gpu::sm90 {

// Named barriers: one a warpgroup that says when it may issue products, and one among its own four warps.
inline constexpr int kPingPongBarrier = 1, kGroupBarrier = 5;

template <class Config>
class AttentionRings {
  protected:
    static constexpr int kPanelRow = kAttentionPanel * 2, kKeys = Config::kShape.keys;

    __device__ __forceinline__ AttentionRings(const AttentionShared<Config> &shared, int group)
        : shared_(shared), group_(group), lane_(lane_index()) {}

    __device__ __forceinline__ void release(uint32_t empty) const {
        if (lane_ == 0) barrier_arrive(empty);
    }
    // K's stage is that of the key tile whose scores are next, V's that of the tile whose product with V is next.
    static constexpr uint32_t kStages = Config::kShape.stages, kStagesOfQ = Config::kShape.q_stages();
    static_assert((kStages & (kStages - 1)) == 0, "so that stages and parities are bits of a count");
    __device__ __forceinline__ void wait_q() const { barrier_wait(shared_.q_full(tiles_ % kStagesOfQ), tiles_ / kStagesOfQ & 1); }
    __device__ __forceinline__ void wait_k() const { barrier_wait(shared_.k_full(steps_ % kStages), steps_ / kStages & 1); }
    __device__ __forceinline__ void wait_v() const { barrier_wait(shared_.v_full(values_ % kStages), values_ / kStages & 1); }
    __device__ __forceinline__ void release_q() {
        release(shared_.q_empty(tiles_ % kStagesOfQ));
        ++tiles_;
    }
    __device__ __forceinline__ void release_k() {
        release(shared_.k_empty(steps_ % kStages));
        ++steps_;
    }
    __device__ __forceinline__ void release_v() {
        release(shared_.v_empty(values_ % kStages));
        ++values_;
    }
    __device__ __forceinline__ void wait_strip() const {
        barrier_wait(shared_.strip_full(strips_ % kAttentionStripStages), strips_ / kAttentionStripStages & 1);
    }
    __device__ __forceinline__ void release_strip() {
        __syncwarp();
        release(shared_.strip_empty(strips_ % kAttentionStripStages));
        ++strips_;
    }
    __device__ __forceinline__ uint32_t strip_address() const {
        return shared_.strips + strips_ % kAttentionStripStages * Config::kShape.fused_strip_bytes();
    }
    __device__ __forceinline__ uint32_t q_address() const {
        return shared_.q + tiles_ % kStagesOfQ * Config::kShape.q_bytes() + group_ * 64 * kPanelRow;
    }
    __device__ __forceinline__ uint32_t k_address() const { return shared_.k + steps_ % kStages * Config::kShape.k_bytes(); }
    __device__ __forceinline__ uint32_t v_address() const { return shared_.v + values_ % kStages * Config::kShape.v_bytes(); }
    __device__ __forceinline__ void ping_pong_wait() const { named_sync(kPingPongBarrier + group_, 2 * kWarpgroupThreads); }
    __device__ __forceinline__ void ping_pong_pass() const {
        named_arrive(kPingPongBarrier + (group_ + 1 == Config::kShape.warpgroups ? 0 : group_ + 1), 2 * kWarpgroupThreads);
    }

    __device__ __forceinline__ void ping_pong_skip([[maybe_unused]] int count) const {
        if constexpr (Config::kShape.ping_pong) {
#pragma unroll 1
            for (int i = 0; i < count; ++i) {
                ping_pong_wait();
                ping_pong_pass();
            }
        }
    }

    // Descriptors. Steps within an operand do not carry out of the address's bits.
    __device__ __forceinline__ uint64_t q_operand() const { return product_operand(q_address(), 16); }
    __device__ __forceinline__ uint64_t k_operand() const { return product_operand(k_address(), 16); }
    __device__ __forceinline__ uint64_t v_operand() const { return product_operand(v_address(), kKeys * kPanelRow); }

    const AttentionShared<Config> shared_;
    const int group_, lane_;
    uint32_t tiles_ = 0, steps_ = 0, values_ = 0,
             strips_ = 0;  // Tiles of rows, key tiles whose scores are done, whose values are, and whose bias or mask is.
};

}  // namespace attile::gpu::sm90
