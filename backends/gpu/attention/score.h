// SPDX-License-Identifier: Apache-2.0
// What happens to a score between q.k and the exponential: softcap, bias, ALiBi, then what the mask hides. In units of log2.
#pragma once

#include "attention/block.h"
#include "attention/lanes.h"
#include "numeric.h"

namespace attile::gpu {

ATTILE_LANE_FN float load_number(const AttentionOperand &x, int64_t at) {
    if (x.storage == AttentionStorage::kF32) return static_cast<const float *>(x.data)[at];
    if (x.storage == AttentionStorage::kF16) return to_compute(static_cast<const F16 *>(x.data)[at]);
    if (x.storage == AttentionStorage::kBF16) return to_compute(static_cast<const BF16 *>(x.data)[at]);
    return static_cast<float>(static_cast<const double *>(x.data)[at]);
}

// A head's slope in units of log2, in two floats: distances are long, and one rounding of it would grow with them.
struct AlibiSlope {
    ATTILE_LANE_FN AlibiSlope() : whole(0), high(0), low(0) {}
    ATTILE_LANE_FN explicit AlibiSlope(float slope)
        : whole(slope), high(slope * kLog2EHigh), low(slope - slope == 0 ? fmaf(slope, kLog2EHigh, -high) + slope * kLog2ELow : 0.0f) {}
    ATTILE_LANE_FN float lower(float score, float distance) const {
        return fused_multiply_add(-high, distance, fused_multiply_add(-low, distance, score));
    }
    float whole, high, low;
};

// One row's modifiers, but for masks of blocks and trees; the row and its head are fixed, keys vary.
class ScoreModifiers {
  public:
    ATTILE_LANE_FN ScoreModifiers(const AttentionParams &p, const AttentionEntry &entry, int head, int row) : p_(p), batch_(entry.batch) {
        bias_ = entry.batch * p.bias.stride[0] + head * p.bias.stride[1] + row * p.bias.stride[2];
        allowed_ = entry.batch * p.allowed.stride[0] + head * p.allowed.stride[1] + row * p.allowed.stride[2];
        if (p.alibi_slopes.data) {
            slope_ = AlibiSlope(load_number(p.alibi_slopes, entry.batch * p.alibi_slopes.stride[0] + head * p.alibi_slopes.stride[1]));
            diagonal_ = row + entry.shift;
        }
    }
    // The score of a key that the mask shows; -inf if `allowed` or the bias hides it.
    ATTILE_LANE_FN float apply(float score, int key) const {
        if (p_.softcap_log2 != 0) score = p_.softcap_log2 * tanhf(score / p_.softcap_log2);
        return apply_to_capped(score, key);
    }
    // kLog2: in units of log2.
    template <bool kLog2 = true>
    ATTILE_LANE_FN float apply_to_capped(float score, int key) const {
        if (p_.bias.data) {
            const float bias = load_number(p_.bias, bias_ + key * p_.bias.stride[3]);
            score = kLog2 ? add_bias_log2(score, bias) : bias == -INFINITY ? -INFINITY : score + bias;
        }
        if (p_.alibi_slopes.data) {
            const float distance = fabsf(static_cast<float>(key - diagonal_));
            score = kLog2 ? slope_.lower(score, distance) : fused_multiply_add(-slope_.whole, distance, score);
        }
        if (p_.allowed.data && !static_cast<const uint8_t *>(p_.allowed.data)[allowed_ + key * p_.allowed.stride[3]]) score = -INFINITY;
        if (p_.block_table && !has_page(key)) score = -INFINITY;
        return score;
    }
    // The same of a key whose page there is, each number read once, for scores in units of log2.
    ATTILE_LANE_FN float apply_once(float score, int key) const {
        if (p_.softcap_log2 != 0) score = p_.softcap_log2 * tanh_fast(score / p_.softcap_log2);
        if (p_.bias.data) score = add_bias_log2(score, load_number(p_.bias, bias_ + key * p_.bias.stride[3]));
        if (p_.alibi_slopes.data) score = slope_.lower(score, fabsf(static_cast<float>(key - diagonal_)));
        if (p_.allowed.data && !static_cast<const uint8_t *>(p_.allowed.data)[allowed_ + key * p_.allowed.stride[3]]) score = -INFINITY;
        return score;
    }
    // Sends for what a key's score will want.
    ATTILE_LANE_FN void prefetch(int key) const {
        if (p_.bias.data && p_.bias.storage == AttentionStorage::kF32)
            gpu::prefetch(static_cast<const float *>(p_.bias.data) + (bias_ + key * p_.bias.stride[3]));
        if (p_.allowed.data) gpu::prefetch(static_cast<const uint8_t *>(p_.allowed.data) + (allowed_ + key * p_.allowed.stride[3]));
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

// A lane's scores of the tile of keys that begins at first_key: its block, first row and first key.
template <class C>
struct TilePlace {
    using Lanes = AttentionLanes<C::kLaneCols, C::kRows>;
    ATTILE_LANE_FN TilePlace(const AttentionParams &p, int tile_key) : block(p, C::kThreads / kLanes * Lanes::kGroupRows) {
        const unsigned thread = thread_of<C>();
        first_row = block.first_row + static_cast<int>(thread / kLanes) * Lanes::kGroupRows + Lanes::lane_row(thread % kLanes) * 4;
        first_key = tile_key + LaneKeys<C>::first(Lanes::lane_col(thread % kLanes));
    }
    ATTILE_LANE_FN int row(int i) const { return min(first_row + Lanes::row(i), block.rows - 1); }
    ATTILE_LANE_FN int key(int j) const { return first_key + LaneKeys<C>::after(j); }

    const AttentionBlock block;
    int first_row, first_key;
};

// Hides the scores that the mask does. A row sees keys from window_left before its diagonal to window_right after it, and none from len_k
// on. (Where heads are rows, the plan sees to it that the windows are open.)
template <class C>
ATTILE_LANE_FN void mask_scores(const AttentionParams &p, int tile_key, float (&score)[C::kRows][C::kKeys]) {
    const TilePlace<C> place(p, tile_key);
    const uint32_t width = p.window_left + p.window_right + 1,
                   from = place.first_key + p.window_left - (place.first_row + place.block.entry.shift);
    const int left = place.block.entry.len_k - place.first_key;
#pragma unroll
    for (int j = 0; j < C::kKeys; ++j)
#pragma unroll
        for (int i = 0; i < C::kRows; ++i)
            if (from + (LaneKeys<C>::after(j) - TilePlace<C>::Lanes::row(i)) >= width || LaneKeys<C>::after(j) >= left)
                score[i][j] = -INFINITY;
}

// All that happens to a whole tile of scores, a row's loads on their way together.
template <class C>
class TileModifiers {
  public:
    ATTILE_LANE_FN TileModifiers(const AttentionParams &p, int tile_key) : p_(p), place_(p, tile_key) {}

    // Sends for what apply() will read, before the product, which takes longer than the way from memory.
    ATTILE_LANE_FN void prefetch() const {
        if (p_.bias.data && p_.bias.storage == AttentionStorage::kF32) prefetch_rows<4>(p_.bias);
        if (p_.allowed.data) prefetch_rows<1>(p_.allowed);
    }

    // From products to scores in units of log2, hidden ones -inf. is_whole: every row sees all keys as far as mask and lengths say.
    ATTILE_LANE_FN void apply(bool is_whole, float (&score)[C::kRows][C::kKeys]) const {
        if (p_.softcap_log2 != 0) {
            const float inverse = 1.0f / p_.softcap_log2;
#pragma unroll
            for (int i = 0; i < C::kRows; ++i)
#pragma unroll
                for (float &x : score[i]) x = p_.softcap_log2 * tanh_fast(x * inverse);
        }
        if (p_.bias.data) {
            if (p_.bias.storage == AttentionStorage::kF32)
                add_bias(static_cast<const float *>(p_.bias.data), is_whole, score);
            else
                for_each_row([&](int i, float(&row)[C::kKeys]) { add_bias_any(i, row); }, score);
        }
        if (p_.alibi_slopes.data) add_alibi(score);
        if (p_.allowed.data) hide_disallowed(is_whole, score);
        if (p_.block_table) hide_missing_pages(score);
        if (has_sparse_mask(p_)) hide_sparse(score);
        if (is_whole) return;
        for_each_row(
            [&](int i, float(&row)[C::kKeys]) {
                const KeyRange range = place_.block.range(p_, place_.row(i));
#pragma unroll
                for (int j = 0; j < C::kKeys; ++j)
                    if (!range.has(place_.key(j))) row[j] = -INFINITY;
            },
            score);
    }

  private:
    template <class Step>
    static ATTILE_LANE_FN void for_each_row(const Step &step, float (&score)[C::kRows][C::kKeys]) {
#pragma unroll
        for (int i = 0; i < C::kRows; ++i) step(i, score[i]);
    }
    // Where a packed row of an operand begins.
    ATTILE_LANE_FN int64_t row_begin(const AttentionOperand &x, int row) const {
        const int64_t first =
            place_.block.entry.batch * x.stride[0] + place_.block.place.head * static_cast<int64_t>(p_.pack.divisor) * x.stride[1];
        if (p_.pack.divisor == 1) return first + row * x.stride[2];
        return first + query_row(p_, row) * x.stride[2] + remainder(static_cast<uint32_t>(row), p_.pack) * x.stride[1];
    }
    // The lines of the group's rows of the tile, if they are contiguous, shared out among the lanes.
    template <int kBytes>
    ATTILE_LANE_FN void prefetch_rows(const AttentionOperand &x) const {
        using Lanes = typename TilePlace<C>::Lanes;
        constexpr int kLine = 128, kKeys = C::kKeys * C::kLaneCols, kLines = (kKeys * kBytes + kLine - 1) / kLine;
        if (x.stride[3] != 1) return;
        const unsigned thread = thread_of<C>();
        const int group_row = place_.block.first_row + static_cast<int>(thread / kLanes) * Lanes::kGroupRows;
        const int first_key = place_.first_key - Lanes::lane_col(thread % kLanes);
#pragma unroll
        for (int i = 0; i < Lanes::kGroupRows * kLines; i += kLanes) {
            const int line = i + static_cast<int>(thread % kLanes), row = min(group_row + line / kLines, place_.block.rows - 1);
            const int key = min(first_key + line % kLines * (kLine / kBytes), place_.block.entry.len_k - 1);
            gpu::prefetch(static_cast<const char *>(x.data) + (row_begin(x, row) + key) * kBytes);
        }
    }
    // A row of an operand. Where all keys are there and lie side by side, one address serves for all; else those past the last repeat it.
    template <class T>
    ATTILE_LANE_FN void read_row(const AttentionOperand &x, int i, bool is_whole, T (&to)[C::kKeys]) const {
        const T *const from = static_cast<const T *>(x.data) + row_begin(x, place_.row(i));
        if (is_whole && x.stride[3] == 1) {
#pragma unroll
            for (int j = 0; j < C::kKeys; ++j) to[j] = load_vec_const<1>(from + place_.first_key + C::kLaneCols * j)[0];
        } else {
#pragma unroll
            for (int j = 0; j < C::kKeys; ++j)
                to[j] = load_vec_const<1>(from + min(place_.key(j), place_.block.entry.len_k - 1) * x.stride[3])[0];
        }
    }
    template <class T>
    ATTILE_LANE_FN void add_bias(const T *, bool is_whole, float (&score)[C::kRows][C::kKeys]) const {
        for_each_row(
            [&](int i, float(&row)[C::kKeys]) {
                T bias[C::kKeys];
                read_row(p_.bias, i, is_whole, bias);
#pragma unroll
                for (int j = 0; j < C::kKeys; ++j) row[j] = add_bias_log2(row[j], bias[j]);
            },
            score);
    }
    ATTILE_LANE_FN void add_bias_any(int i, float (&row)[C::kKeys]) const {
        const int64_t at = row_begin(p_.bias, place_.row(i));
#pragma unroll
        for (int j = 0; j < C::kKeys; ++j) {
            const float bias = load_number(p_.bias, at + min(place_.key(j), place_.block.entry.len_k - 1) * p_.bias.stride[3]);
            row[j] = add_bias_log2(row[j], bias);
        }
    }
    ATTILE_LANE_FN void add_alibi(float (&score)[C::kRows][C::kKeys]) const {
        const int shift = place_.block.entry.shift;
        AlibiSlope slope;
#pragma unroll
        for (int i = 0; i < C::kRows; ++i) {
            if (i == 0 || p_.pack.divisor != 1) {
                const int head = query_head(p_, place_.block.place.head, place_.row(i));
                slope = AlibiSlope(
                    load_number(p_.alibi_slopes, place_.block.entry.batch * p_.alibi_slopes.stride[0] + head * p_.alibi_slopes.stride[1]));
            }
            // Of the first key; the others' by addition, which is as exact and cheaper than more conversions.
            const float distance = static_cast<float>(place_.first_key - (query_row(p_, place_.row(i)) + shift));
#pragma unroll
            for (int j = 0; j < C::kKeys; ++j)
                score[i][j] = slope.lower(score[i][j], fabsf(distance + static_cast<float>(C::kLaneCols * j)));
        }
    }
    ATTILE_LANE_FN void hide_disallowed(bool is_whole, float (&score)[C::kRows][C::kKeys]) const {
        for_each_row(
            [&](int i, float(&row)[C::kKeys]) {
                uint8_t shows[C::kKeys];
                read_row(p_.allowed, i, is_whole, shows);
#pragma unroll
                for (int j = 0; j < C::kKeys; ++j)
                    if (shows[j] == 0) row[j] = -INFINITY;
            },
            score);
    }
    ATTILE_LANE_FN void hide_sparse(float (&score)[C::kRows][C::kKeys]) const {
        const AttentionEntry &entry = place_.block.entry;
        const int last_key = max(entry.len_k - 1, 0);
        const auto head = [&](int i) { return query_head(p_, place_.block.place.head, place_.row(i)); };
        static_assert(ATTILE_MASK_BLOCK % (C::kLaneCols * C::kKeys) == 0, "a tile's keys are of one block");
        if (p_.block_mask.data) {
            for_each_row(
                [&](int i, float(&row)[C::kKeys]) {
                    const bool shows = mask_shows(p_.block_mask, entry.batch, head(i), query_row(p_, place_.row(i)) / ATTILE_MASK_BLOCK,
                                                  min(place_.first_key, last_key) / ATTILE_MASK_BLOCK);
#pragma unroll
                    for (float &x : row) x = pick(shows, x, -INFINITY);
                },
                score);
        }
        if (!p_.tree_mask.data || lane_all(place_.first_key + C::kLaneCols * C::kKeys < entry.len_k - p_.tree_keys)) return;
#pragma unroll 1
        for (int j = 0; j < C::kKeys; ++j) {
            const int key = min(place_.key(j), last_key);
#pragma unroll
            for (int i = 0; i < C::kRows; ++i) {
                const bool shows = tree_mask_shows(p_, entry, head(i), query_row(p_, place_.row(i)), key);
#pragma unroll
                for (int at = 0; at < C::kKeys; ++at)
                    if (at == j) score[i][at] = pick(shows, score[i][at], -INFINITY);
            }
        }
    }
    ATTILE_LANE_FN void hide_missing_pages(float (&score)[C::kRows][C::kKeys]) const {
#pragma unroll 1
        for (int j = 0; j < C::kKeys; ++j) {
            const int there = min(place_.key(j), max(place_.block.entry.len_k - 1, 0));
            const int64_t page = p_.block_table[place_.block.entry.batch * p_.block_table_stride[0] +
                                                quotient(there, p_.page_size) * p_.block_table_stride[1]];
            const bool exists = page >= 0 && page < p_.pages;
#pragma unroll
            for (int jj = 0; jj < C::kKeys; ++jj)
#pragma unroll
                for (int i = 0; i < C::kRows; ++i)
                    if (jj == j && !exists) score[i][jj] = -INFINITY;
        }
    }

    const AttentionParams &p_;
    const TilePlace<C> place_;
};

}  // namespace attile::gpu
