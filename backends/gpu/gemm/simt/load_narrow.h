// SPDX-License-Identifier: Apache-2.0
// A panel of B of 8 or 4 bits, any strides: a byte for each number is fetched with its scale, and both meet as they are stored to shared
// memory. Scales change along the depth where chunks begin, since groups are multiples of 32 of a depth that is one.
#pragma once

#include "gemm/block_scale_at.h"
#include "gemm/simt/grouped.h"
#include "gemm/simt/load.h"
#include "narrow.h"

#include <attile/attile.h>

namespace attile::gpu::simt {

template <int kOuter, int kThreads>
class GemmNarrowPanel {
  public:
    static constexpr int kDeep = 4, kCount = kOuter * kGemmChunk / kThreads, kLines = kCount / 2;
    static_assert(kCount * kThreads == kOuter * kGemmChunk && kCount % 2 == 0, "every thread reads as much, at two depths");
    static constexpr int kRow = kOuter + 8;

    ATTILE_LANE_FN GemmNarrowPanel(const GemmInput &input, const NarrowInput &narrow, int64_t batch_y, int64_t outer_first,
                                   int64_t outer_extent)
        : input_(input),
          narrow_(narrow),
          scales_(scales_of_entry(narrow.scale, 0, batch_y)),
          zeros_(scales_of_entry(narrow.zero, 0, batch_y)),
          depth_(static_cast<int>(threadIdx.x) % kDeep) {
        const int outer = static_cast<int>(threadIdx.x) / kDeep;
        to_ = depth_ * kRow + outer;
        at_ = batch_y * input.batch_y + depth_ * input.depth;
#pragma unroll
        for (int line = 0; line < kLines; ++line) line_[line] = min(outer_first + outer + line * kStep, outer_extent - 1);
    }

    ATTILE_LANE_FN void load_first(int64_t, int depth_left) { load<true>(depth_left); }
    ATTILE_LANE_FN void store_first(float *panel, float *) const { store(panel); }
    ATTILE_LANE_FN void advance_first(int depths) { advance(depths); }

    // Of the guarded form, depths from `depth_left` on count as zero.
    template <bool kGuarded>
    ATTILE_LANE_FN void load(int depth_left) {
        const uint8_t *const bytes = static_cast<const uint8_t *>(input_.data);
        const bool four_bits = (narrow_.dtype & 0xff) == 4;
        high_ = there_ = 0;
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            const int64_t at = at_ + line_[i / 2] * input_.outer + i % 2 * kDeep * input_.depth;
            number_[i] = 0;
            if (kGuarded && depth_ + i % 2 * kDeep >= depth_left) continue;
            there_ |= 1u << i;
            number_[i] = load_vec_const<1>(bytes + (four_bits ? at >> 1 : at))[0];
            high_ |= static_cast<uint32_t>(four_bits ? at & 1 : 0) << i;
        }
#pragma unroll
        for (int line = 0; line < kLines; ++line) {
            scale_[line] = scales_ != nullptr ? scale_at(narrow_.scale, scales_, line_[line], first_) : 1.0f;
            zero_[line] = zeros_ != nullptr ? scale_at(narrow_.zero, zeros_, line_[line], first_) : 0.0f;
        }
    }
    ATTILE_LANE_FN void advance(int depths) {
        at_ += depths * input_.depth;
        first_ += depths;
    }
    ATTILE_LANE_FN void store(float *panel) const {
        switch (narrow_.dtype) {
            case ATTILE_I8:
                return store_as(panel, [](uint32_t byte, uint32_t) { return to_compute(I8{static_cast<int8_t>(byte)}); });
            case ATTILE_F8_E4M3:
                return store_as(panel, [](uint32_t byte, uint32_t) { return to_compute(E4M3{static_cast<uint8_t>(byte)}); });
            case ATTILE_F8_E5M2:
                return store_as(panel, [](uint32_t byte, uint32_t) { return to_compute(E5M2{static_cast<uint8_t>(byte)}); });
            case ATTILE_I4:
                return store_as(panel, [](uint32_t byte, uint32_t high) { return from_i4(byte >> 4 * high); });
            default:
                return store_as(panel, [](uint32_t byte, uint32_t high) { return from_u4(byte >> 4 * high); });
        }
    }
    ATTILE_LANE_FN void store_ahead(float *) const {}

  private:
    static constexpr int kStep = kThreads / kDeep;  // Lines from one of a thread's to the next.

    template <class Number>
    ATTILE_LANE_FN void store_as(float *panel, const Number &number) const {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            const float value = (number(number_[i], high_ >> i & 1u) - zero_[i / 2]) * scale_[i / 2];
            panel[to_ + i % 2 * kDeep * kRow + i / 2 * kStep] = (there_ >> i & 1u) != 0 ? value : 0.0f;
        }
    }

    const GemmInput &input_;
    const NarrowInput &narrow_;
    const float *scales_, *zeros_;
    int64_t at_;            // Of the line 0.
    int64_t line_[kLines];  // Beyond the matrix the last one.
    int64_t first_ = 0;     // Depth of the chunk.
    int depth_;             // Of a thread's first number, within the chunk.
    int to_;
    uint32_t high_ = 0, there_ = 0;  // A bit for each number: it is in the upper half of its byte; it is there.
    uint32_t number_[kCount] = {};
    float scale_[kLines] = {}, zero_[kLines] = {};
};

}  // namespace attile::gpu::simt
