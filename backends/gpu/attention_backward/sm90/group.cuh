// SPDX-License-Identifier: Apache-2.0
// What the consumer warpgroups of both kernels of attention's gradients share: those that have 64 keys each, and those that share 64 keys
// and have one of dK and dV each (attention_backward/sm90/wide.cuh).
#pragma once

#include "attention/sm90/product.cuh"
#include "attention_backward/sm90/shown.cuh"
#include "gemm/sm90/product.cuh"

namespace attile::gpu::sm90 {

__device__ __forceinline__ void load_four(float (&to)[4], uint32_t from) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3]) : "r"(from) : "memory");
}
__device__ __forceinline__ void store_four(uint32_t to, const float *from) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(from[0]), "f"(from[1]), "f"(from[2]), "f"(from[3]) : "memory");
}

template <class Element, class Config, class Shared>
class BackwardGroup {
  protected:
    static constexpr BackwardShape kShape = Config::kShape;
    static constexpr int kPanelRow = kBackwardPanel * 2, kRows = kShape.rows, kDepth = kShape.depth, kKeys = kShape.keys;
    static constexpr int kScores = kRows / 2, kSums = kDepth / 2;

    // group: which 64 of the block's keys the warpgroup has.
    __device__ __forceinline__ BackwardGroup(const BackwardArguments &arguments, const Shared &shared, int group)
        : a_(arguments), shared_(shared), group_(group), lane_(lane_index()) {}

    // Calls tile(index) for each tile that the block takes; count_ is how many steps it has under a mask of blocks.
    template <class Tile>
    __device__ __forceinline__ void for_each_tile(const Tile &tile) {
#pragma unroll 1
        for (uint32_t scheduled = 0;; ++scheduled) {
            barrier_wait(shared_.work_full(scheduled % 2), scheduled / 2 & 1);
            int index;
            asm volatile("ld.shared.s32 %0, [%1];" : "=r"(index) : "r"(shared_.work(scheduled % 2)) : "memory");
            index = warp_uniform(index);
            if constexpr (kShape.sparse) {
                asm volatile("ld.shared.s32 %0, [%1 + 4];" : "=r"(count_) : "r"(shared_.work(scheduled % 2)) : "memory");
                count_ = warp_uniform(count_);
            }
            release(shared_.work_empty(scheduled % 2));
            if (index < 0) return;
            tile(index);
        }
    }

    __device__ __forceinline__ int warp() const { return static_cast<int>(threadIdx.x) / kWarpThreads % 4; }
    // Of the warpgroup, counted from the block's.
    __device__ __forceinline__ int first_key() const { return kKeys == 64 ? 0 : 64 * group_; }
    // The thread has this key of the block and the one eight further.
    __device__ __forceinline__ int key() const { return first_key() + 16 * warp() + lane_ / 4; }
    // Says that what the warp has read may be overwritten, and that what it has written may be read.
    __device__ __forceinline__ void release(uint32_t barrier) const {
        __syncwarp();
        if (lane_ == 0) barrier_arrive(barrier);
    }

    // The half of a descriptor that differs between operands.
    static __device__ __forceinline__ uint32_t operand_low(uint32_t address, uint32_t next_bytes) {
        return static_cast<uint32_t>(product_operand(address, next_bytes));
    }
    static __device__ __forceinline__ uint64_t operand(uint32_t low) { return (product_operand(0, 0) >> 32 << 32) | low; }

    // to = keys rows^T
    static __device__ __forceinline__ void multiply_scores(float (&to)[kScores], uint32_t keys, uint32_t rows) {
        const uint32_t left = operand_low(keys, 16), right = operand_low(rows, 16);
        keep_in_registers(to);
        product_fence();
#pragma unroll
        for (int i = 0; i < kDepth / 16; ++i)
            gemm_product<Element, kRows, 0, 0>(to, operand(left + i / 4 * (kKeys * kPanelRow / 16) + i % 4 * 2),
                                               operand(right + i / 4 * (kRows * kPanelRow / 16) + i % 4 * 2), i != 0);
        product_commit();
    }
    // sums += scores rows, over kCount of the tile's rows from kFirst on.
    template <int kFirst, int kCount>
    static __device__ __forceinline__ void multiply_rows(float (&sums)[kSums], const uint32_t (&scores)[kScores / 2], uint32_t rows) {
        const uint32_t right = operand_low(rows, kRows * kPanelRow);
        keep_in_registers(sums);
        product_fence();
#pragma unroll
        for (int i = kFirst / 16; i < (kFirst + kCount) / 16; ++i)
            value_product<Element, kDepth>(sums, scores + 4 * i, operand(right + i * 128));
        product_commit();
    }

    // Sets which rows of a batch entry see the warpgroup's keys.
    __device__ __forceinline__ void set_range(const BackwardSite &site) {
        low_ = warp_uniform(site.entry.shift - a_.p.forward.window_left - site.first);
        width_ = warp_uniform(a_.p.forward.window_left + a_.p.forward.window_right);
        end_ = warp_uniform(site.entry.len_k - site.first);
    }
    // Does every row of the tile see all of the warpgroup's keys?
    __device__ __forceinline__ bool is_whole(int row) const {
        const int low = low_ + row, keys = first_key();
        return keys - (kRows - 1) >= low && keys + 63 <= low + width_ && keys + 64 <= end_;
    }
    // Key minus query row of what is seen lies in [low_, low_ + width_]; keys end at end_. All counted from the block's first key.
    __device__ __forceinline__ void mask(int row, float (&s)[kScores]) const {
        if (is_whole(row)) return;
        const int low = low_ + row;
        const int first = key(), distance = first - (lane_ & 3) * 2 - low;  // Of the thread's first score.
        const bool is_past[2] = {first >= end_, first + 8 >= end_};
#pragma unroll
        for (int i = 0; i < kScores; ++i) {
            const int at = distance + (i & 2) * 4 - (i >> 2) * 8 - (i & 1);
            if (static_cast<uint32_t>(at) > static_cast<uint32_t>(width_) || is_past[i >> 1 & 1]) s[i] = -INFINITY;
        }
    }
    // Sets the rows from `end` on to zero in each of kPanels panels of kCount rows, by kThreads threads, of which this one has the number
    // `thread`. They have to meet at a barrier before a product reads the panels.
    template <int kPanels, int kCount, int kThreads>
    static __device__ __forceinline__ void clear_from(uint32_t panels, int end, int thread) {
        constexpr int kPieces = kPanels * kCount * (kPanelRow / 16);
#pragma unroll 1
        for (int i = thread; i < kPieces; i += kThreads) {
            const int row = i / (kPanelRow / 16) % kCount;
            if (row >= end) asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(panels + 16 * i), "r"(0) : "memory");
        }
        async_proxy_fence();
    }
    // Keys that nobody may read become zero: a gradient of zero times NaN would be NaN. Both warpgroups clear K and V, or one of them one
    // of the two.
    template <bool kOfK, bool kOfV>
    __device__ __forceinline__ void clear_unread(int barrier) const {
        if (end_ >= kKeys) return;
        constexpr int kThreads = (kOfK + kOfV) * kWarpgroupThreads;
        clear_from<(kOfK + kOfV) * kShape.panels(), kKeys, kThreads>(
            kOfK ? shared_.k : shared_.v(), end_,
            kOfK && kOfV ? static_cast<int>(threadIdx.x) - kWarpgroupThreads : static_cast<int>(threadIdx.x) % kWarpgroupThreads);
        named_sync(barrier, kThreads);
    }

    // Gradients of keys past a key length are stored, as zeros. Keys past a packed sequence belong to the next one and are not stored.
    __device__ __forceinline__ int end_of_stored(const BackwardSite &site) const {
        return a_.p.forward.cu_len_k != nullptr ? site.entry.len_k : a_.p.forward.len_k;
    }

    const BackwardArguments &a_;
    const Shared shared_;
    const int group_, lane_;
    uint32_t tiles_ = 0, steps_ = 0;
    int low_, width_, end_;
    int count_ = 0;
};

}  // namespace attile::gpu::sm90
