// SPDX-License-Identifier: Apache-2.0
// What happens to a score between q.k and the exponential: softcap, bias, ALiBi, then what the mask hides. In units of log2.
#pragma once

#include "numeric.h"
#include "tile/attention_block.h"
#include "tile/attention_lanes.h"

namespace attile::simt {

ATTILE_LANE_FN float load_number(const AttentionOperand &x, int64_t at) {
    if (x.storage == AttentionStorage::kF32) return static_cast<const float *>(x.data)[at];
    if (x.storage == AttentionStorage::kF16) return to_compute(static_cast<const F16 *>(x.data)[at]);
    if (x.storage == AttentionStorage::kBF16) return to_compute(static_cast<const BF16 *>(x.data)[at]);
    return static_cast<float>(static_cast<const double *>(x.data)[at]);
}

// A head's slope in units of log2, in two floats: distances are long, and one rounding of it would grow with them.
struct AlibiSlope {
    ATTILE_LANE_FN AlibiSlope() : high(0), low(0) {}
    ATTILE_LANE_FN explicit AlibiSlope(float slope)
        : high(slope * kLog2EHigh), low(slope - slope == 0 ? fmaf(slope, kLog2EHigh, -high) + slope * kLog2ELow : 0.0f) {}
    ATTILE_LANE_FN float lower(float score, float distance) const {
        return fused_multiply_add(-high, distance, fused_multiply_add(-low, distance, score));
    }
    float high, low;
};

// One row's modifiers; the row and its head are fixed, keys vary.
class ScoreModifiers {
  public:
    ATTILE_LANE_FN ScoreModifiers(const AttentionParams &p, const AttentionEntry &entry, int head, int row) : p_(p), batch_(entry.batch) {
        bias_ = entry.batch * p.bias.stride[0] + head * p.bias.stride[1] + row * p.bias.stride[2];
        allowed_ = entry.batch * p.allowed.stride[0] + head * p.allowed.stride[1] + row * p.allowed.stride[2];
        if (p.alibi_slopes.data) {
            slope_ = AlibiSlope(load_number(p.alibi_slopes, entry.batch * p.alibi_slopes.stride[0] + head * p.alibi_slopes.stride[1]));
            diagonal_ = row + (p.alibi_bottom_right ? entry.len_k - entry.len_q : 0);
        }
    }
    // The score of a key that the mask shows; -inf if `allowed` or the bias hides it.
    ATTILE_LANE_FN float apply(float score, int key) const {
        if (p_.softcap_log2 != 0) score = p_.softcap_log2 * tanhf(score / p_.softcap_log2);
        return apply_to_capped(score, key);
    }
    ATTILE_LANE_FN float apply_to_capped(float score, int key) const {
        if (p_.bias.data) {
            const float bias = load_number(p_.bias, bias_ + key * p_.bias.stride[3]);
            score = bias == -INFINITY ? -INFINITY : add_log2(score, bias);
        }
        if (p_.alibi_slopes.data) score = slope_.lower(score, fabsf(static_cast<float>(key - diagonal_)));
        if (p_.allowed.data && !static_cast<const uint8_t *>(p_.allowed.data)[allowed_ + key * p_.allowed.stride[3]]) score = -INFINITY;
        if (p_.block_table && !has_page(key)) score = -INFINITY;
        return score;
    }
    // Does neither `allowed` nor the bias hide the key?
    ATTILE_LANE_FN bool shows(int key) const {
        if (p_.block_table && !has_page(key)) return false;
        if (p_.bias.data && load_number(p_.bias, bias_ + key * p_.bias.stride[3]) == -INFINITY) return false;
        return !p_.allowed.data || static_cast<const uint8_t *>(p_.allowed.data)[allowed_ + key * p_.allowed.stride[3]] != 0;
    }

  private:
    // A page that does not exist hides its keys.
    ATTILE_LANE_FN bool has_page(int key) const {
        const int64_t page = p_.block_table[batch_ * p_.block_table_stride[0] + quotient(key, p_.page_size) * p_.block_table_stride[1]];
        return page >= 0 && page < p_.pages;
    }
    const AttentionParams &p_;
    int batch_;
    int64_t bias_, allowed_;
    AlibiSlope slope_;
    int diagonal_ = 0;
};

// The same for a whole tile of scores at once, each step over all of them, so that many loads are on their way together. Then the mask.
// my_row and first_key: the lane's first row and its first key.
template <class C>
ATTILE_LANE_FN void modify_scores(const AttentionParams &p, const AttentionBlock &block, int my_row, int first_key,
                                  float (&score)[C::kRows][C::kKeys]) {
    using Lanes = AttentionLanes<C::kLaneCols, C::kRows>;
    const int len_k = block.entry.len_k;
    const auto packed = [&](int i) { return min(my_row + Lanes::row(i), block.rows - 1); };
    const auto offset = [&](const AttentionOperand &x, int i) {
        return block.entry.batch * x.stride[0] + query_head(p, block.place.head, packed(i)) * x.stride[1] +
               query_row(p, packed(i)) * x.stride[2];
    };
    const auto for_each = [&](const auto &step) {
#pragma unroll
        for (int i = 0; i < C::kRows; ++i)
#pragma unroll
            for (int j = 0; j < C::kKeys; ++j) step(i, j, first_key + C::kLaneCols * j);
    };
    if (p.softcap_log2 != 0) {
        const float inverse = 1.0f / p.softcap_log2;
        for_each([&](int i, int j, int) { score[i][j] = p.softcap_log2 * tanhf(score[i][j] * inverse); });
    }
    if (p.bias.data) {
        const auto add = [&](const auto &load) {
#pragma unroll
            for (int i = 0; i < C::kRows; ++i) {
                const int64_t row = offset(p.bias, i);
                float bias[C::kKeys];
#pragma unroll
                for (int j = 0; j < C::kKeys; ++j)
                    bias[j] = first_key + C::kLaneCols * j < len_k ? load(row, first_key + C::kLaneCols * j) : 0.0f;
#pragma unroll
                for (int j = 0; j < C::kKeys; ++j) score[i][j] = bias[j] == -INFINITY ? -INFINITY : add_log2(score[i][j], bias[j]);
            }
        };
        const float *const rows = static_cast<const float *>(p.bias.data);
        if (p.bias.storage == AttentionStorage::kF32 && p.bias.stride[3] == 1)
            add([&](int64_t row, int key) { return load_vec_const<1>(rows + row + key)[0]; });
        else
            add([&](int64_t row, int key) { return load_number(p.bias, row + key * p.bias.stride[3]); });
    }
    if (p.alibi_slopes.data) {
        const int shift = p.alibi_bottom_right ? len_k - block.entry.len_q : 0;
#pragma unroll
        for (int i = 0; i < C::kRows; ++i) {
            const int head = query_head(p, block.place.head, packed(i));
            const AlibiSlope slope(
                load_number(p.alibi_slopes, block.entry.batch * p.alibi_slopes.stride[0] + head * p.alibi_slopes.stride[1]));
            const int diagonal = query_row(p, packed(i)) + shift;
#pragma unroll
            for (int j = 0; j < C::kKeys; ++j)
                score[i][j] = slope.lower(score[i][j], fabsf(static_cast<float>(first_key + C::kLaneCols * j - diagonal)));
        }
    }
    if (p.allowed.data) {
        const uint8_t *const rows = static_cast<const uint8_t *>(p.allowed.data);
#pragma unroll
        for (int i = 0; i < C::kRows; ++i) {
            const int64_t row = offset(p.allowed, i);
            bool hides[C::kKeys];
#pragma unroll
            for (int j = 0; j < C::kKeys; ++j) {
                const int key = first_key + C::kLaneCols * j;
                hides[j] = key < len_k && load_vec_const<1>(rows + row + key * p.allowed.stride[3])[0] == 0;
            }
#pragma unroll
            for (int j = 0; j < C::kKeys; ++j)
                if (hides[j]) score[i][j] = -INFINITY;
        }
    }
    if (p.block_table) {
#pragma unroll 1
        for (int j = 0; j < C::kKeys; ++j) {
            const int key = min(first_key + C::kLaneCols * j, max(len_k - 1, 0));
            const int64_t page =
                p.block_table[block.entry.batch * p.block_table_stride[0] + quotient(key, p.page_size) * p.block_table_stride[1]];
            const bool exists = page >= 0 && page < p.pages;
#pragma unroll
            for (int jj = 0; jj < C::kKeys; ++jj)
#pragma unroll
                for (int i = 0; i < C::kRows; ++i)
                    if (jj == j && !exists) score[i][jj] = -INFINITY;
        }
    }
#pragma unroll
    for (int i = 0; i < C::kRows; ++i) {
        const KeyRange range = block.range(p, packed(i));
#pragma unroll
        for (int j = 0; j < C::kKeys; ++j)
            if (!range.has(first_key + C::kLaneCols * j)) score[i][j] = -INFINITY;
    }
}

}  // namespace attile::simt
