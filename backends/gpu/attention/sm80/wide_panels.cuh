// SPDX-License-Identifier: Apache-2.0
// Panels of K and V on their way through shared memory: all of K's of the last tile, in order of their columns, all of V's, then the tile
// before. Each step of the kernel uses one, while those ahead are being copied.
//
// Panels take the stages in turn. Where V's rows are the first columns of K's, and as many as there are stages for, V's panels are not
// copied: K's panel i lies in stage i until the product with V has used it, and the half one that V has not lies where probabilities come
// to afterwards.
#pragma once

#include "attention/sm80/load.cuh"
#include "attention/sm80/wide_shapes.h"

namespace attile::gpu::sm80 {

// Where rows of a half panel lie.
using HalfPanelRows = SharedRows<AttentionWideShape::half>;

template <class Config>
class WidePanels {
  public:
    static constexpr int kPanel = Config::kShape.panel, kStages = Config::kShape.stages, kAhead = kStages - 1;

    __device__ __forceinline__ WidePanels(const AttentionTask &task, const AttentionWorkTile &work, const AttentionSources &sources,
                                          uint32_t stages)
        : a_(task), work_(work), sources_(sources), stages_(stages) {}
    __device__ __forceinline__ void begin() {
        tile_ = work_.end_tile - 1;
        panel_ = stage_ = 0;
#pragma unroll 1
        for (int i = 0; i < kAhead; ++i) load(i);
    }
    __device__ __forceinline__ int k_panels() const { return (a_.p.head_dim + kPanel - 1) / kPanel; }
    __device__ __forceinline__ int v_panels() const { return (a_.p.head_dim_v + kPanel - 1) / kPanel; }
    // A step: the next panel has come, number `panel` of K or V, and no warp uses the one before any more, whose stage is filled after
    // use(where the panel lies): so warps that come from the barrier begin with products.
    template <class Use>
    __device__ __forceinline__ void step(int panel, const Use &use) {
        copy_wait<kAhead - 1>();
        __syncthreads();
        use(place(panel, stage_));
        load(stage_ == 0 ? kStages - 1 : stage_ - 1);
        stage_ = stage_ + 1 == kStages ? 0 : stage_ + 1;
    }

  private:
    // With fewer panels of V, K's next ones would come while V's product still needs their stages.
    __device__ __forceinline__ bool shares() const {
        return Config::kShape.may_share() && a_.values_in_keys && a_.p.head_dim_v > kAhead * kPanel;
    }
    __device__ __forceinline__ uint32_t place(int panel, int stage) const {
        return stages_ + static_cast<uint32_t>(shares() ? panel : stage) * Config::kShape.panel_bytes();
    }
    // The panel after those that are there or on their way.
    __device__ __forceinline__ void load(int stage) {
        if (tile_ >= work_.first_tile) {
            const int keys_panels = k_panels();
            const bool is_k = panel_ < keys_panels;
            const int panel = is_k ? panel_ : panel_ - keys_panels;
            if (is_k || !shares()) copy(is_k, panel * kPanel, place(panel, stage));
            if (++panel_ == keys_panels + v_panels()) {
                panel_ = 0;
                --tile_;
            }
        }
        copy_commit();  // Empty groups too: their count says which panel has come.
    }
    // K's or V's columns from `first` on; a half panel that has none is left out.
    __device__ __forceinline__ void copy(bool is_k, int first, uint32_t to) const {
        constexpr int kChunks = kPanel / 8, kAtOnce = Config::kShape.threads() / kChunks, kKeys = Config::kShape.keys;
        const AttentionParams &p = a_.p;
        const uint32_t thread = renewed(threadIdx.x);
        const int chunk = static_cast<int>(thread % kChunks), row = static_cast<int>(thread / kChunks);
        const int columns = (is_k ? p.head_dim : p.head_dim_v) - first;
        if (chunk / 8 * Config::kShape.half >= columns) return;
        const int bytes = chunk_bytes(columns, chunk), key = tile_ * kKeys + row;
        const int64_t stride = (is_k ? p.k.stride[2] : p.v.stride[2]) * Config::kShape.bytes;
        const char *from = (is_k ? sources_.k : sources_.v) + first * Config::kShape.bytes + 16 * chunk;
        to += chunk / 8 * Config::kShape.half_bytes() + HalfPanelRows::at(row, chunk % 8);
        const uint32_t ahead = static_cast<uint32_t>(key - work_.read_first),
                       read = static_cast<uint32_t>(max(work_.read_end - work_.read_first, 0));
        static_assert(kAtOnce % 8 == 0 && kKeys % kAtOnce == 0, "all of a thread's rows are swizzled alike");
        if (Config::kShape.may_have_pages() && p.block_table != nullptr) {
            const int64_t page_stride = (is_k ? p.k.stride[0] : p.v.stride[0]) * Config::kShape.bytes;
            const int32_t *const table = p.block_table + work_.batch * p.block_table_stride[0];
#pragma unroll 4
            for (int i = 0; i < kKeys; i += kAtOnce) {
                const uint32_t run = quotient(static_cast<uint32_t>(key + i), p.page_size);
                const int64_t page = ahead + i < read ? table[run * p.block_table_stride[1]] : -1;
                const int slot = key + i - static_cast<int>(run * p.page_size.divisor);
                const bool is_there = page >= 0 && page < p.pages;
                copy_async(to + i * HalfPanelRows::kBytes, from + (is_there ? page * page_stride + slot * stride : 0),
                           is_there ? bytes : 0);
            }
            return;
        }
        from += key * stride;
        if (bytes == 16 && ahead < read && ahead + (kKeys - kAtOnce) < read) {
#pragma unroll
            for (int i = 0; i < kKeys; i += kAtOnce) {
                copy_async(to + i * HalfPanelRows::kBytes, from);
                from += kAtOnce * stride;
            }
            return;
        }
#pragma unroll
        for (int i = 0; i < kKeys; i += kAtOnce) {
            copy_async(to + i * HalfPanelRows::kBytes, from, ahead + i < read ? bytes : 0);
            from += kAtOnce * stride;
        }
    }

    const AttentionTask &a_;
    const AttentionWorkTile &work_;
    const AttentionSources &sources_;
    const uint32_t stages_;
    int tile_, panel_;  // Of the next load; V's panels are counted after K's.
    int stage_;         // Of the next step.
};

}  // namespace attile::gpu::sm80
