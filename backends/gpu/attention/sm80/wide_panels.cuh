// SPDX-License-Identifier: Apache-2.0
// Panels of K and V on their way through shared memory: all of K's of the last tile, in order of their columns, all of V's, then the tile
// before. Each step of the kernel uses one, while those ahead are being copied.
//
// Panels take the stages in turn. Where V's rows are the first columns of K's, V's panels are not copied: K's panel i lies in stage i until
// the product with V has used it, and one that V has not lies where probabilities come to afterwards.
#pragma once

#include "attention/sm80/load.cuh"

namespace attile::gpu::sm80 {

template <class Config>
class WidePanels {
  public:
    static constexpr int kPanel = Config::kShape.panel, kStages = Config::kShape.stages, kAhead = kStages - 1;

    __device__ __forceinline__ WidePanels(const AttentionTask &task, const AttentionWorkTile &work, const AttentionSources &sources,
                                          uint32_t stages)
        : a_(task), work_(work), sources_(sources), stages_(stages) {}
    __device__ __forceinline__ void begin() {
        tile_ = work_.end_tile - 1;
        panel_ = stage_ = used_stage_ = 0;
#pragma unroll 1
        for (int i = 0; i < kAhead; ++i) load();
    }
    __device__ __forceinline__ int k_panels() const { return (a_.p.head_dim + kPanel - 1) / kPanel; }
    __device__ __forceinline__ int v_panels() const { return (a_.p.head_dim_v + kPanel - 1) / kPanel; }
    // The panel of the next step has come, and no warp uses the one before any more. Panel number `panel` of K or V; returns where it is.
    __device__ __forceinline__ uint32_t next(int panel) {
        copy_wait<kAhead - 1>();
        __syncthreads();
        load();
        const uint32_t at = place(panel, used_stage_);
        used_stage_ = after(used_stage_);
        return at;
    }

  private:
    __device__ __forceinline__ bool shares() const { return Config::kShape.may_share() && a_.values_in_keys; }
    static __device__ __forceinline__ int after(int stage) { return stage + 1 == kStages ? 0 : stage + 1; }
    __device__ __forceinline__ uint32_t place(int panel, int stage) const {
        return stages_ + static_cast<uint32_t>(shares() ? panel : stage) * Config::kShape.panel_bytes();
    }
    // The panel after those that are there or on their way.
    __device__ __forceinline__ void load() {
        if (tile_ >= work_.first_tile) {
            const AttentionParams &p = a_.p;
            const int keys_panels = k_panels();
            const bool is_k = panel_ < keys_panels;
            const int panel = is_k ? panel_ : panel_ - keys_panels, first = panel * kPanel;
            if (is_k || !shares())
                load_columns<Config, kPanel>(p, work_, (is_k ? sources_.k : sources_.v) + first * Config::kShape.bytes,
                                             is_k ? p.k.stride[0] : p.v.stride[0], is_k ? p.k.stride[2] : p.v.stride[2],
                                             (is_k ? p.head_dim : p.head_dim_v) - first, place(panel, stage_), tile_);
            stage_ = after(stage_);
            if (++panel_ == keys_panels + v_panels()) {
                panel_ = 0;
                --tile_;
            }
        }
        copy_commit();  // Empty groups too: their count says which panel has come.
    }

    const AttentionTask &a_;
    const AttentionWorkTile &work_;
    const AttentionSources &sources_;
    const uint32_t stages_;
    int tile_, panel_, stage_;  // Of the next load; V's panels are counted after K's.
    int used_stage_;            // Of the next step.
};

}  // namespace attile::gpu::sm80
