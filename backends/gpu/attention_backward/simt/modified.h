// SPDX-License-Identifier: Apache-2.0
// Probabilities and gradients of scores that pass through more than a mask: softcap, bias, ALiBi, `allowed`.
#pragma once

#include "attention/score.h"
#include "attention_backward/simt/shape.h"
#include "attention_backward/tiles.h"

namespace attile::gpu::simt {

// On entry a lane's scores are products of q and k, and its pairs in shared memory are dP - delta. On return the former are the gradients
// of scale q.k, the latter probabilities. Row by row, in a loop: unrolled over all of the tile this would not fit the instruction cache.
template <class C>
ATTILE_LANE_FN void modified_gradients(const AttentionBackwardParams &p, const AttentionEntry &entry, int pair, int head, int unit,
                                       int my_row, int my_key, const float *row_numbers, float *pairs,
                                       float (&score)[C::Scores::kMicroM][C::Scores::kMicroN]) {
    using Scores = GemmMicro<typename C::Scores, float>;
    constexpr int kRows = C::Scores::kMicroM, kKeys = C::Scores::kMicroN, kPitch = BackwardShape<C>::kKeyPitch;
    const AttentionParams &f = p.forward;
    float slope = 0;
    if (f.alibi_slopes.data) slope = load_number(f.alibi_slopes, entry.batch * f.alibi_slopes.stride[0] + head * f.alibi_slopes.stride[1]);
    const int tile_row = unit_row(p, unit);
#pragma unroll 1
    for (int i = 0; i < kRows; ++i) {
        float s[kKeys];
#pragma unroll
        for (int ii = 0; ii < kRows; ++ii)
#pragma unroll
            for (int j = 0; j < kKeys; ++j) s[j] = pick(ii == i, score[ii][j], ii == 0 ? 0.0f : s[j]);
        const int row = my_row + Scores::row(i), there = min(row, max(entry.len_q - 1, 0));
        const float minus_lse = -row_numbers[Scores::row(i)];
        const KeyRange range(f, row, entry);
        const int64_t bias = entry.batch * f.bias.stride[0] + head * f.bias.stride[1] + there * f.bias.stride[2];
        const int64_t allowed = entry.batch * f.allowed.stride[0] + head * f.allowed.stride[1] + there * f.allowed.stride[2];
        float *const gradients = static_cast<float *>(p.part_bias) +
                                 (part_of_unit(p, pair, unit) * p.block_rows + row - tile_row) * static_cast<int64_t>(f.len_k);
        uint32_t shown = ~0u;
        if (has_sparse_mask(f)) {
#pragma unroll 1
            for (int j = 0; j < kKeys; ++j)  // A loop, for want of registers.
                if (!sparse_mask_shows(f, entry, head, there, my_key + Scores::col(j))) shown &= ~(1u << j);
        }
#pragma unroll
        for (int j = 0; j < kKeys; ++j) {
            const int key = my_key + Scores::col(j);
            float *const at = pairs + Scores::row(i) * kPitch + Scores::col(j);
            bool sees = range.has(key) && row < entry.len_q && (shown >> j & 1) != 0;
            float x = fused_multiply_add(s[j], p.scale, s[j] * p.scale_low), slope_of_cap = 1;
            if (p.softcap != 0) {
                const float t = tanhf(x * p.inverse_softcap);
                x = p.softcap * t;
                slope_of_cap = 1.0f - t * t;
            }
            if (sees && f.bias.data) {
                const float b = load_number(f.bias, bias + key * f.bias.stride[3]);
                sees = b != -INFINITY;
                x += b;
            }
            if (f.alibi_slopes.data) x -= slope * fabsf(static_cast<float>(key - row - entry.shift));
            if (sees && f.allowed.data) sees = static_cast<const uint8_t *>(f.allowed.data)[allowed + key * f.allowed.stride[3]] != 0;
            sees = sees && x != -INFINITY;
            const float probability = sees ? exp2_fast((x + minus_lse) * kLog2EHigh) : 0.0f;
            const float gradient = sees ? probability * *at : 0.0f;
            *at = probability;
            s[j] = sees ? gradient * slope_of_cap : 0.0f;
            if (p.part_bias && key < f.len_k) gradients[key] = gradient;
        }
#pragma unroll
        for (int ii = 0; ii < kRows; ++ii)
#pragma unroll
            for (int j = 0; j < kKeys; ++j) score[ii][j] = pick(ii == i, s[j], score[ii][j]);
    }
}

}  // namespace attile::gpu::simt
