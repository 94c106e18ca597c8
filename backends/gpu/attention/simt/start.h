// SPDX-License-Identifier: Apache-2.0
// Where a tile's products Q K^T start, for kernels of one modifier: not from minus the rows' references alone, but from bias or ALiBi less
// reference, or from -inf where `allowed` hides a key, so that nothing is left to be done afterwards. What comes from memory is loaded
// straight into the scores' registers while the tile before is still multiplied by V, which needs them no more.
//
// A hidden key of NaN or infinite K makes its rows NaN: attend_carefully() then does them again.
#pragma once

#include "attention/block.h"
#include "attention/lanes.h"
#include "attention/score.h"

namespace attile::gpu::simt {

// Scores this far (in powers of two) above a row's reference make the reference move; below, sums stay far from overflow.
inline constexpr float kRescaleAbove = 16.0f;
// Scores this far above a reference of larger magnitude than theirs were rounded as numbers of that magnitude: they are computed anew.
// Where that is decided before their own magnitude is known, references this far below 0 count as large.
inline constexpr float kAnewAbove = 8.0f, kAnewBelow = 64.0f;

// A product that starts from b - r and ends at b + q.k - r is rounded as the larger of them, as often as there are columns. So b comes late
// (add()) in the first tile, where there is no reference r yet; and the first reference of a row whose largest score is `top` lies between
// what that score's product would start from and end at, where both are about half as large.
ATTILE_LANE_FN float reference_between(float top) { return top - fminf(fmaxf(0.3f * top, -8.0f), 8.0f); }

template <class C>
ATTILE_LANE_FN void begin_plainly(const float (&minus)[C::kRows], float (&score)[C::kRows][C::kKeys]) {
#pragma unroll
    for (int i = 0; i < C::kRows; ++i)
#pragma unroll
        for (int j = 0; j < C::kKeys; ++j) score[i][j] = minus[i];
}

// From minus the references.
template <class C, AttentionKind kKind>
class ScoreStart {
  public:
    static constexpr bool kLoads = false, kLifts = false, kLate = false;
    static constexpr uint32_t kFar = 0;
    ATTILE_LANE_FN ScoreStart(const AttentionParams &, const AttentionBlock &, int, int) {}
    static ATTILE_LANE_FN float first_reference(float top) { return top; }
    ATTILE_LANE_FN void load_first(const AttentionParams &, int, float (&)[C::kRows][C::kKeys]) const {}
    ATTILE_LANE_FN void load(const AttentionParams &, int, float (&)[C::kRows][C::kKeys]) const {}
    ATTILE_LANE_FN void begin(int, bool, const float (&minus)[C::kRows], float (&score)[C::kRows][C::kKeys]) const {
        begin_plainly<C>(minus, score);
    }
    // Of some lanes alone, when the tile before is done with.
    ATTILE_LANE_FN void begin_anew(const AttentionParams &, int, const float (&minus)[C::kRows], float (&score)[C::kRows][C::kKeys]) const {
        begin_plainly<C>(minus, score);
    }
    ATTILE_LANE_FN void add(const AttentionParams &, int, float (&)[C::kRows][C::kKeys]) const {}
};

// Rows of an operand in quads along keys; whole ones, and all of them may be accessed as such.
template <class C, class T>
class StartRows {
  public:
    static constexpr bool kLoads = true, kLifts = false;
    using Lanes = AttentionLanes<C::kLaneCols, C::kRows>;
    static ATTILE_LANE_FN float first_reference(float top) { return reference_between(top); }
    static_assert(!C::kKeyRuns || C::kKeys % 4 == 0, "whole runs");
    ATTILE_LANE_FN StartRows(const AttentionOperand &x, const AttentionBlock &block) {
        const int lane = lane_index(), row = block.first_row + lane_group_index() * Lanes::kGroupRows + Lanes::lane_row(lane) * 4;
        const int first = min(row, block.rows - 1);
        rows_after_ = block.rows - 1 - first;
        from_ = static_cast<const T *>(x.data) + block.entry.batch * x.stride[0] + block.place.head * x.stride[1] + first * x.stride[2];
    }
    // Sends for the lines of the tile that begins at `tile_key`, shared out among the lanes of a row.
    ATTILE_LANE_FN void prefetch(int row_bytes, int last_run, int tile_key) const {
        static_assert(C::kRows == C::kLaneCols, "a lane column for each row");
        const int lane_col = Lanes::lane_col(fresh_thread() % kLanes), row = (lane_col & 3) + (lane_col >> 2) * (Lanes::kGroupRows / 2);
        const char *const from = reinterpret_cast<const char *>(from_) + static_cast<int64_t>(min(row, rows_after_)) * row_bytes;
#pragma unroll
        for (int key = 0; key < C::kKeys * C::kLaneCols; key += static_cast<int>(128 / sizeof(T)))
            gpu::prefetch(reinterpret_cast<const T *>(from) + min(tile_key + key, last_run));
    }
    // The runs of row i and the keys of the tile that begins at `tile_key`; past the operand's end the last one again.
    template <class Take>
    ATTILE_LANE_FN void load_row(int row_bytes, int last_run, int tile_key, int i, const Take &take) const {
        const int first_key = tile_key + LaneKeys<C>::first(Lanes::lane_col(fresh_thread() % kLanes));
        const char *const row = reinterpret_cast<const char *>(from_) + static_cast<int64_t>(min(Lanes::row(i), rows_after_)) * row_bytes;
#pragma unroll
        for (int j = 0; j < C::kKeys; j += 4)
            take(i, j, load_vec_const<4>(reinterpret_cast<const T *>(row) + min(first_key + LaneKeys<C>::after(j), last_run)));
    }
    template <class Take>
    ATTILE_LANE_FN void load(int row_bytes, int last_run, int tile_key, const Take &take) const {
#pragma unroll
        for (int i = 0; i < C::kRows; ++i) load_row(row_bytes, last_run, tile_key, i, take);
    }

  private:
    const T *from_;
    int rows_after_;
};

template <class C>
class ScoreStart<C, AttentionKind::kBiased> : public StartRows<C, float> {
  public:
    static constexpr bool kLate = true;
    ATTILE_LANE_FN ScoreStart(const AttentionParams &p, const AttentionBlock &block, int, int) : StartRows<C, float>(p.bias, block) {}
    ATTILE_LANE_FN void prefetch(const AttentionParams &p, int tile_key) const {
        StartRows<C, float>::prefetch(p.bias.row_bytes, p.len_k - 4, tile_key);
    }
    ATTILE_LANE_FN void load(const AttentionParams &p, int tile_key, float (&score)[C::kRows][C::kKeys]) const {
        StartRows<C, float>::load(p.bias.row_bytes, p.len_k - 4, tile_key, [&](int i, int j, const Quad &run) {
#pragma unroll
            for (int e = 0; e < 4; ++e) score[i][j + e] = run[e];
        });
    }
    // None: they come late.
    ATTILE_LANE_FN void load_first(const AttentionParams &, int, float (&score)[C::kRows][C::kKeys]) const {
#pragma unroll
        for (int i = 0; i < C::kRows; ++i)
#pragma unroll
            for (int j = 0; j < C::kKeys; ++j) score[i][j] = 0;
    }
    // One rounding; that log2(e) is a float's costs a fifth of another, all biases alike.
    ATTILE_LANE_FN void begin(int, bool, const float (&minus)[C::kRows], float (&score)[C::kRows][C::kKeys]) const {
#pragma unroll
        for (int i = 0; i < C::kRows; ++i)
#pragma unroll
            for (int j = 0; j < C::kKeys; ++j) score[i][j] = fused_multiply_add(score[i][j], kLog2EHigh, minus[i]);
    }
    // A row at a time: loads of all would spill.
    ATTILE_LANE_FN void add(const AttentionParams &p, int tile_key, float (&score)[C::kRows][C::kKeys]) const {
#pragma unroll 1
        for (int row = 0; row < C::kRows; ++row) {
            StartRows<C, float>::load_row(p.bias.row_bytes, p.len_k - 4, tile_key, row, [&](int, int j, const Quad &run) {
#pragma unroll
                for (int i = 0; i < C::kRows; ++i)
#pragma unroll
                    for (int e = 0; e < 4; ++e)
                        if (i == row) score[i][j + e] = fused_multiply_add(run[e], kLog2EHigh, score[i][j + e]);
            });
        }
    }
    // Is a reference far from 0 (numeric.h)? The kernel's state keeps it as kFar.
    static constexpr uint32_t kFar = 1u << 11;
    static ATTILE_LANE_FN bool are_far(const float (&minus)[C::kRows]) {
        float most = 0;
#pragma unroll
        for (const float x : minus) most = fmaxf(most, fabsf(x));
        return most > 0.5f * kFarScore;
    }
    // Where all of a lane's scores of a row are far, once more: begin() and add() make infinities of biases that are finite. Nothing shows
    // of the product but that it is no number.
    ATTILE_LANE_FN void mend_far(const AttentionParams &p, int tile_key, const float (&minus)[C::kRows],
                                 float (&score)[C::kRows][C::kKeys]) const {
        bool any_far = false;
#pragma unroll
        for (int i = 0; i < C::kRows; ++i) {
            float top = score[i][0];
#pragma unroll
            for (int j = 1; j < C::kKeys; ++j) top = fmaxf(top, score[i][j]);
            any_far = any_far || !(fabsf(top - minus[i]) <= 0.5f * kFarScore);
        }
        if (!lane_any(any_far)) return;
#pragma unroll 1
        for (int row = 0; row < C::kRows; ++row) {
            StartRows<C, float>::load_row(p.bias.row_bytes, p.len_k - 4, tile_key, row, [&](int, int j, const Quad &run) {
#pragma unroll
                for (int i = 0; i < C::kRows; ++i)
#pragma unroll
                    for (int e = 0; e < 4; ++e)
                        if (i == row && gpu::is_far(run[e] * kLog2EHigh) && score[i][j + e] == score[i][j + e])
                            score[i][j + e] = far_score(run[e]) + minus[i];
            });
        }
    }
    ATTILE_LANE_FN void begin_anew(const AttentionParams &p, int tile_key, const float (&minus)[C::kRows],
                                   float (&score)[C::kRows][C::kKeys]) const {
        begin_plainly<C>(minus, score);
        add(p, tile_key, score);
    }
};

template <class C>
class ScoreStart<C, AttentionKind::kAllowed> : public StartRows<C, uint8_t> {
  public:
    static constexpr bool kLate = false;
    static constexpr uint32_t kFar = 0;
    ATTILE_LANE_FN void load_first(const AttentionParams &p, int tile_key, float (&score)[C::kRows][C::kKeys]) const {
        load(p, tile_key, score);
    }
    ATTILE_LANE_FN void add(const AttentionParams &, int, float (&)[C::kRows][C::kKeys]) const {}
    ATTILE_LANE_FN void begin_anew(const AttentionParams &p, int tile_key, const float (&minus)[C::kRows],
                                   float (&score)[C::kRows][C::kKeys]) const {
        load(p, tile_key, score);
        begin(tile_key, false, minus, score);
    }
    ATTILE_LANE_FN ScoreStart(const AttentionParams &p, const AttentionBlock &block, int, int) : StartRows<C, uint8_t>(p.allowed, block) {}
    // A run is kept in the first of its scores.
    ATTILE_LANE_FN void load(const AttentionParams &p, int tile_key, float (&score)[C::kRows][C::kKeys]) const {
        StartRows<C, uint8_t>::load(p.allowed.row_bytes, p.len_k - 4, tile_key, [&](int i, int j, const Vec<uint8_t, 4> &run) {
            uint32_t bytes;
            copy_bits(bytes, run);
            score[i][j] = __uint_as_float(bytes);
        });
    }
    ATTILE_LANE_FN void begin(int, bool, const float (&minus)[C::kRows], float (&score)[C::kRows][C::kKeys]) const {
#pragma unroll
        for (int i = 0; i < C::kRows; ++i)
#pragma unroll
            for (int j = 0; j < C::kKeys; j += 4) {
                const uint32_t bytes = fresh(__float_as_uint(score[i][j]));
#pragma unroll
                for (int e = 3; e >= 0; --e) score[i][j + e] = (bytes & 0xffu << 8 * e) != 0 ? minus[i] : -INFINITY;
            }
    }
};

// On one side of the diagonal ALiBi is linear: a number for each row, one for each key.
template <class C>
class ScoreStart<C, AttentionKind::kAlibi> {
  public:
    static constexpr bool kLoads = false, kLifts = true, kLate = true;
    static constexpr uint32_t kFar = 0;
    using Lanes = AttentionLanes<C::kLaneCols, C::kRows>;
    // Nothing is known of the keys next to the diagonal, which will count.
    static ATTILE_LANE_FN float first_reference(float top) { return top - fminf(fmaxf(top, -kRescaleAbove), kRescaleAbove); }
    // Of tiles from `first_tile` to `end_tile`.
    ATTILE_LANE_FN ScoreStart(const AttentionParams &p, const AttentionBlock &block, int first_tile, int end_tile)
        : slope_(load_number(p.alibi_slopes, block.entry.batch * p.alibi_slopes.stride[0] + block.place.head * p.alibi_slopes.stride[1])) {
        constexpr int kBlockKeys = C::kKeys * C::kLaneCols;
        const int lane = lane_index(), shift = p.alibi_bottom_right ? block.entry.len_k - block.entry.len_q : 0;
        const int row = block.first_row + lane_group_index() * Lanes::kGroupRows + Lanes::lane_row(lane) * 4;
        diagonal_ = row + shift;
        first_key_ = LaneKeys<C>::first(Lanes::lane_col(lane));
#pragma unroll
        for (int i = 0; i < C::kRows; ++i) {
            const KeyRange range = block.range(p, row + Lanes::row(i));
            const int low = max(range.low, first_tile * kBlockKeys), high = min(range.high, end_tile * kBlockKeys);
            lift_[i] = lift(i, low, high - 1);
        }
    }
    ATTILE_LANE_FN void load_first(const AttentionParams &, int, float (&)[C::kRows][C::kKeys]) const {}
    ATTILE_LANE_FN void load(const AttentionParams &, int, float (&)[C::kRows][C::kKeys]) const {}
    ATTILE_LANE_FN void begin(int tile_key, bool late, const float (&minus)[C::kRows], float (&score)[C::kRows][C::kKeys]) const {
        if (late) {  // Not from the lifts, either: they may be large, where no key is near.
            constexpr float kZero[C::kRows] = {};
            return begin_plainly<C>(kZero, score);
        }
        constexpr int kLast = LaneKeys<C>::after(C::kKeys - 1), kLastRow = Lanes::row(C::kRows - 1);
        const int first = tile_key + first_key_ - diagonal_;  // The first key's distance from the first row's diagonal.
        const bool is_right = first >= kLastRow, is_left = first + kLast <= 0;
        if (lane_all(is_right || is_left)) {
            // Counted from the key next to the diagonal, away from it: no number is larger than its distance.
            const float step = is_right ? -slope_.high : slope_.high, high = is_right ? slope_.high : -slope_.high;
            const float low = is_right ? slope_.low : -slope_.low, nearest = static_cast<float>(is_right ? first : first + kLast);
            float key[C::kKeys];
#pragma unroll
            for (int j = 0; j < C::kKeys; ++j)
                key[j] =
                    is_right ? step * static_cast<float>(LaneKeys<C>::after(j)) : step * static_cast<float>(LaneKeys<C>::after(j) - kLast);
#pragma unroll
            for (int i = 0; i < C::kRows; ++i) {
                const float distance = nearest - static_cast<float>(Lanes::row(i));
                const float row = fused_multiply_add(-high, distance, fused_multiply_add(-low, distance, minus[i]));
#pragma unroll
                for (int j = 0; j < C::kKeys; ++j) score[i][j] = row + key[j];
            }
        } else {
            begin_plainly<C>(minus, score);
            add_everywhere(tile_key, score);
        }
    }
    ATTILE_LANE_FN void add(const AttentionParams &, int tile_key, float (&score)[C::kRows][C::kKeys]) const {
        const float first = static_cast<float>(tile_key + first_key_ - diagonal_);
#pragma unroll
        for (int i = 0; i < C::kRows; ++i)
#pragma unroll
            for (int j = 0; j < C::kKeys; ++j)
                score[i][j] += slope_.lower(lift_[i], fabsf(first + static_cast<float>(LaneKeys<C>::after(j) - Lanes::row(i))));
    }
    ATTILE_LANE_FN void begin_anew(const AttentionParams &, int tile_key, const float (&minus)[C::kRows],
                                   float (&score)[C::kRows][C::kKeys]) const {
        begin_plainly<C>(minus, score);
        add_everywhere(tile_key, score);
    }
    // What ALiBi takes at least of row i's scores of keys from `low` to `high`. References begin with that of all keys that the row sees:
    // a reference that followed ALiBi from tile to tile would have to move with each.
    ATTILE_LANE_FN float lift(int i, int low, int high) const {
        const int at = diagonal_ + Lanes::row(i);
        return fmaxf(slope_.high, 0.0f) * static_cast<float>(max(max(low - at, at - high), 0));
    }
    ATTILE_LANE_FN void first_references(float (&minus)[C::kRows]) const {
#pragma unroll
        for (int i = 0; i < C::kRows; ++i) minus[i] = lift_[i];
    }
    // Where references began too high for what came, what probabilities lost below the least float may count: such rows are made NaN, so
    // that they are done again. A bit of `unset` is a row that saw no key.
    static ATTILE_LANE_FN void spoil_small_sums(uint32_t unset, const float (&sum)[C::kRows], float (&out)[C::kRows][C::kCols]) {
#pragma unroll
        for (int i = 0; i < C::kRows; ++i)
            if ((unset >> i & 1) == 0 && !(sum[i] > 0x1p-60f)) out[i][0] = NAN;
    }

  private:
    ATTILE_LANE_FN void add_everywhere(int tile_key, float (&score)[C::kRows][C::kKeys]) const {
        const float first = static_cast<float>(tile_key + first_key_ - diagonal_);
#pragma unroll
        for (int i = 0; i < C::kRows; ++i)
#pragma unroll
            for (int j = 0; j < C::kKeys; ++j)
                score[i][j] = slope_.lower(score[i][j], fabsf(first + static_cast<float>(LaneKeys<C>::after(j) - Lanes::row(i))));
    }

    AlibiSlope slope_;
    int diagonal_, first_key_;
    float lift_[C::kRows];
};

// tanh(x / cap) / (x / cap) where |x| is below kTanhNear * cap and `fits` of the cap: within 2e-8 of the exact one and a rounding.
inline constexpr float kTanhNear = 0.7f;
class TanhShare {
  public:
    static ATTILE_LANE_FN bool fits(float cap) { return cap > 0x1p-8f && cap < 0x1p10f; }
    ATTILE_LANE_FN explicit TanhShare(float cap) {
        const float inverse = 1.0f / cap, square = inverse * inverse;
        float power = square;
        const float coefficients[5] = {-0.333331913f, 0.133291110f, -0.0535588637f, 0.0200919770f, -0.00513866730f};
#pragma unroll
        for (int i = 0; i < 5; ++i, power *= square) odd_[i] = coefficients[i] * power;
    }
    ATTILE_LANE_FN float operator()(float x) const {
        const float square = x * x;
        float share = odd_[4];
#pragma unroll
        for (int i = 3; i >= 0; --i) share = __builtin_fmaf(square, share, odd_[i]);
        return __builtin_fmaf(square, share, 1.0f);
    }

  private:
    float odd_[5];
};

// From q.k to the score less the row's reference, where scores are capped.
template <class C>
ATTILE_LANE_FN void cap_scores(const AttentionParams &p, const float (&minus)[C::kRows], float (&score)[C::kRows][C::kKeys]) {
    const float cap = p.softcap_log2;
    float largest = 0;
#pragma unroll
    for (int i = 0; i < C::kRows; ++i)
#pragma unroll
        for (int j = 0; j < C::kKeys; ++j) largest = fmaxf(largest, fabsf(score[i][j]));
    if (lane_all(largest < kTanhNear * cap) && TanhShare::fits(cap)) {
        const TanhShare share(cap);
#pragma unroll
        for (int i = 0; i < C::kRows; ++i)
#pragma unroll
            for (int j = 0; j < C::kKeys; ++j) score[i][j] = fused_multiply_add(score[i][j], share(score[i][j]), minus[i]);
    } else {
        const float inverse = 1.0f / cap;
#pragma unroll
        for (int i = 0; i < C::kRows; ++i)
#pragma unroll
            for (int j = 0; j < C::kKeys; ++j) score[i][j] = fused_multiply_add(cap, tanh_fast(score[i][j] * inverse), minus[i]);
    }
}

}  // namespace attile::gpu::simt
