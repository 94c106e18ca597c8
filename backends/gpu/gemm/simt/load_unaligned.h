// SPDX-License-Identifier: Apache-2.0
// Panels of float matrices whose rows begin anywhere, for the large tile: few wavefronts of global loads, and no tests in the loop.
//
// Along depth a thread reads four elements of its row at a time, from the next address of 16 bytes on, so that it runs up to three depths
// ahead of the chunk. What belongs to the chunk after goes to its place behind the barrier, when nobody reads there any more. Along outer,
// lanes read neighbours, beyond the matrix too: of the next depths.
//
// The depth that is left over when whole chunks are cut off goes first, as ever, but is taken from the end: then the loop reads nothing
// behind the operand's last element, if the host saw to what reads_unaligned_rows() asks for (gemm/plan.cpp).
//
// Measured (H200, compute_61 PTX, the panels of elements one by one before): 4000x4001x4003 44.1 -> 46.4 TFLOP/s, 1000x1001x1003 in 4
// splits 63.0 -> 60.5 us. By ncu the loads made 2.35 million wavefronts in the latter, now 0.80. The pad of B's rows matters to ptxas
// alone: without it banks of registers collide in the loop.
#pragma once

#include "gemm/simt/load.h"

namespace attile::gpu::simt {

template <int kOuter, int kThreads>
class GemmPanel<float, kOuter, kThreads, GemmAccess::kDepthUnaligned> {
  public:
    static constexpr int kRow = kOuter + 4;
    static_assert(kOuter * kGemmChunk == 4 * kThreads, "one access of a thread");

    ATTILE_LANE_FN GemmPanel(const GemmInput &input, int64_t batch_x, int64_t batch_y, int64_t outer_first, int64_t outer_extent,
                             int64_t depth_first)
        : quad_(threadIdx.x % 2u) {
        const int outer = threadIdx.x / 2u;
        const int64_t row = min(outer_first + outer, outer_extent - 1);
        at_ = static_cast<const float *>(input.data) + batch_x * input.batch_x + batch_y * input.batch_y + row * input.outer + depth_first;
        ahead_ = static_cast<int>(-(reinterpret_cast<uintptr_t>(at_) / sizeof(float)) & 3);
        own_ = quad_ == 0 ? 4 : 4 - ahead_;
        at_ += quad_ * 4 + ahead_;
        to_ = (quad_ * 4 + ahead_) * kRow + outer;
    }

    // The depths that are left over, and what comes before the row's first vector.
    ATTILE_LANE_FN void load_first(int64_t depth, int depth_left) {
        const float *const from = at_ - ahead_ + (depth - depth_left);
#pragma unroll
        for (int v = 0; v < 4; ++v) {
            staged_[v] = quad_ * 4 + v < depth_left ? load_vec_const<1>(from + v)[0] : 0.0f;
            before_[v] = v >= own_ && depth > depth_left ? load_vec_const<1>(at_ + v - kGemmChunk)[0] : 0.0f;
        }
    }
    ATTILE_LANE_FN void store_first(float *panel, float *next) {
#pragma unroll
        for (int v = 0; v < 4; ++v) panel[to_ + (v - ahead_) * kRow] = staged_[v];
        staged_ = before_;
        store_ahead(next);
    }
    ATTILE_LANE_FN void advance_first(int) {}

    template <bool>
    ATTILE_LANE_FN void load(int) {
        staged_ = load_vec_const<4>(at_);
    }
    ATTILE_LANE_FN void advance(int depths) { at_ += depths; }
    ATTILE_LANE_FN void store(float *panel) const {
#pragma unroll
        for (int v = 0; v < 4; ++v) {
            if (v == 0 || v < own_) panel[to_ + v * kRow] = staged_[v];
        }
    }
    // Behind the barrier, into the stage that was read before it.
    ATTILE_LANE_FN void store_ahead(float *panel) const {
#pragma unroll
        for (int v = 1; v < 4; ++v) {
            if (v >= own_) panel[to_ + (v - kGemmChunk) * kRow] = staged_[v];
        }
    }

  private:
    const float *at_;
    int quad_, ahead_;
    int own_;  // Elements of an access that belong to its chunk.
    int to_;
    Vec<float, 4> staged_ = {}, before_ = {};
};

template <int kOuter, int kThreads>
class GemmPanel<float, kOuter, kThreads, GemmAccess::kOuterUnaligned> {
  public:
    static constexpr int kRow = kOuter + 4;
    static_assert(kThreads == kGemmChunk * kLanes && kOuter == 4 * kLanes, "a lane group a depth");

    ATTILE_LANE_FN GemmPanel(const GemmInput &input, int64_t batch_x, int64_t batch_y, int64_t outer_first, int64_t outer_extent,
                             int64_t depth_first)
        : chunk_bytes_(static_cast<uint32_t>(input.chunk_bytes)) {
        const int lane = lane_index(), depth = lane_group_index();
        left_ = static_cast<int>(min(outer_extent - outer_first, int64_t{kOuter})) - lane;
        at_ = reinterpret_cast<const char *>(static_cast<const float *>(input.data) + batch_x * input.batch_x + batch_y * input.batch_y +
                                             (outer_first + lane) + (depth_first + depth) * input.depth);
    }

    ATTILE_LANE_FN void load_first(int64_t depth, int depth_left) {
        const auto *const from = reinterpret_cast<const float *>(at_ + (depth - depth_left) / kGemmChunk * chunk_bytes_);
        const int left = lane_group_index() < depth_left ? left_ : 0;
#pragma unroll
        for (int v = 0; v < 4; ++v) staged_[v] = v * kLanes < left ? load_vec_const<1>(from + v * kLanes)[0] : 0.0f;
    }
    ATTILE_LANE_FN void store_first(float *panel, float *) const { store(panel); }
    ATTILE_LANE_FN void advance_first(int) {}

    template <bool>
    ATTILE_LANE_FN void load(int) {
#pragma unroll
        for (int v = 0; v < 4; ++v) staged_[v] = load_vec_const<1>(reinterpret_cast<const float *>(at_) + v * kLanes)[0];
    }
    ATTILE_LANE_FN void advance(int) { at_ += chunk_bytes_; }
    ATTILE_LANE_FN void store(float *panel) const {
#pragma unroll
        for (int v = 0; v < 4; ++v) panel[place() + v * kLanes] = staged_[v];
    }
    ATTILE_LANE_FN void store_ahead(float *) const {}

  private:
    // Worked out anew: kept, it would cost a spill on sm_61.
    static ATTILE_LANE_FN int place() {
        const unsigned thread = fresh_thread();
        return static_cast<int>(thread / kLanes * kRow + thread % kLanes);
    }

    const char *at_;
    uint32_t chunk_bytes_;
    int left_;  // Columns from the lane's first on.
    Vec<float, 4> staged_ = {};
};

}  // namespace attile::gpu::simt
