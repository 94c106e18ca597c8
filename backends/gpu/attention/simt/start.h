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
#include "attention/stream.h"

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
    static constexpr int kSharedFloats = 0;
    ATTILE_LANE_FN ScoreStart(const AttentionParams &, const AttentionBlock &, float *) {}
    static ATTILE_LANE_FN float first_reference(float top) { return top; }
    ATTILE_LANE_FN void load_first(const AttentionParams &, int, float (&)[C::kRows][C::kKeys]) const {}
    ATTILE_LANE_FN void load(const AttentionParams &, int, float (&)[C::kRows][C::kKeys]) const {}
    ATTILE_LANE_FN void begin(const AttentionParams &, int, bool, const float (&minus)[C::kRows],
                              float (&score)[C::kRows][C::kKeys]) const {
        begin_plainly<C>(minus, score);
    }
    // Of some lanes alone, when the tile before is done with.
    ATTILE_LANE_FN void begin_anew(const AttentionParams &, int, const float (&minus)[C::kRows], float (&score)[C::kRows][C::kKeys]) const {
        begin_plainly<C>(minus, score);
    }
    ATTILE_LANE_FN void add(const AttentionParams &, int, const float (&)[C::kRows], float (&)[C::kRows][C::kKeys]) const {}
};

// Rows of an operand in quads along keys; whole ones, and all of them may be accessed as such.
template <class C, class T>
class StartRows {
  public:
    static constexpr bool kLoads = true, kLifts = false;
    using Lanes = AttentionLanes<C::kLaneCols, C::kRows>;
    static ATTILE_LANE_FN float first_reference(float top) { return reference_between(top); }
    static_assert(!C::kKeyRuns || C::kKeys % 4 == 0, "whole runs");
    ATTILE_LANE_FN StartRows(const AttentionOperand &x, const AttentionBlock &block, float *shared) : rows_(shared) {
        const int lane = lane_index(), row = block.first_row + lane_group_index() * Lanes::kGroupRows + Lanes::lane_row(lane) * 4;
        const int first = min(row, block.rows - 1);
        const int64_t at = block.entry.batch * x.stride[0] + block.place.head * x.stride[1] + first * x.stride[2];
        rows_.set({reinterpret_cast<const char *>(static_cast<const T *>(x.data) + at), block.rows - 1 - first});
    }
    // Sends for the lines of the tile that begins at `tile_key`, shared out among the lanes of a row.
    ATTILE_LANE_FN void prefetch(int row_bytes, int last_run, int tile_key) const {
        constexpr int kLineKeys = 128 / sizeof(T), kAtOnce = C::kLaneCols / C::kRows;  // Lines of a row.
        static_assert(C::kRows == 8 && C::kLaneCols % C::kRows == 0, "a lane column for each row, or several");
        const int lane_col = Lanes::lane_col(fresh_thread() % kLanes);
        const int row = (lane_col & 3) + (lane_col >> 2 & 1) * (Lanes::kGroupRows / 2), first_key = tile_key + lane_col / 8 * kLineKeys;
        const FirstRow rows = rows_.get();
        const char *const from = rows.from + static_cast<int64_t>(min(row, rows.after)) * row_bytes;
#pragma unroll
        for (int key = 0; key < C::kKeys * C::kLaneCols; key += kAtOnce * kLineKeys)
            gpu::prefetch(reinterpret_cast<const T *>(from) + min(first_key + key, last_run));
    }
    // The runs of row i and the keys of the tile that begins at `tile_key`; past the operand's end the last one again.
    template <class Take>
    ATTILE_LANE_FN void load_row(int row_bytes, int last_run, int tile_key, int i, const Take &take) const {
        load_row(rows_.get(), row_bytes, last_run, tile_key, i, take);
    }
    template <class Take>
    ATTILE_LANE_FN void load(int row_bytes, int last_run, int tile_key, const Take &take) const {
        const FirstRow rows = rows_.get();
#pragma unroll
        for (int i = 0; i < C::kRows; ++i) load_row(rows, row_bytes, last_run, tile_key, i, take);
    }

  private:
    struct alignas(16) FirstRow {
        const char *from;
        int after;  // Rows after it.
    };
    template <class Take>
    static ATTILE_LANE_FN void load_row(const FirstRow &rows, int row_bytes, int last_run, int tile_key, int i, const Take &take) {
        const int first_key = tile_key + LaneKeys<C>::first(Lanes::lane_col(fresh_thread() % kLanes));
        const char *const row = rows.from + static_cast<int64_t>(min(Lanes::row(i), rows.after)) * row_bytes;
#pragma unroll
        for (int j = 0; j < C::kKeys; j += 4)
            take(i, j, load_vec_const<4>(reinterpret_cast<const T *>(row) + min(first_key + LaneKeys<C>::after(j), last_run)));
    }
    LaneStore<C, FirstRow, C::kFewRegisters> rows_;

  public:
    static constexpr int kSharedFloats = decltype(rows_)::kSharedFloats;
};

// A bias of float or, as T is uint16_t, of float16 or bfloat16, which stay as they are until a product starts from them.
template <class C, class T>
class BiasStart : public StartRows<C, T> {
  public:
    static constexpr bool kLate = true;
    using Rows = StartRows<C, T>;
    using Run = Vec<T, 4>;
    // Words of a run, and which of its scores keep them: of two words the middle ones, since in the first two they spill at 128 columns.
    static constexpr int kParts = sizeof(Run) / sizeof(float), kPlace = (4 - kParts) / 2;
    using Scores = float[C::kRows][C::kKeys];
    ATTILE_LANE_FN BiasStart(const AttentionParams &p, const AttentionBlock &block, float *shared) : Rows(p.bias, block, shared) {}
    ATTILE_LANE_FN void prefetch(const AttentionParams &p, int tile_key) const { Rows::prefetch(p.bias.row_bytes, p.len_k - 4, tile_key); }
    // A run is kept in its scores.
    ATTILE_LANE_FN void load(const AttentionParams &p, int tile_key, Scores &score) const {
        Rows::load(p.bias.row_bytes, p.len_k - 4, tile_key, [&](int i, int j, const Run &run) {
            float parts[kParts];
            copy_bits(parts, run);
#pragma unroll
            for (int e = 0; e < kParts; ++e) score[i][j + kPlace + e] = parts[e];
        });
    }
    // None: they come late.
    ATTILE_LANE_FN void load_first(const AttentionParams &, int, Scores &score) const {
#pragma unroll
        for (int i = 0; i < C::kRows; ++i)
#pragma unroll
            for (int j = 0; j < C::kKeys; ++j) score[i][j] = 0;
    }
    // One rounding; that log2(e) is a float's costs a fifth of another, all biases alike.
    ATTILE_LANE_FN void begin(const AttentionParams &p, int, bool, const float (&minus)[C::kRows], Scores &score) const {
        with_type(p, [&](auto type) ATTILE_ALWAYS_INLINE {
#pragma unroll
            for (int i = 0; i < C::kRows; ++i)
#pragma unroll
                for (int j = 0; j < C::kKeys; j += 4) {
                    float parts[kParts];
#pragma unroll
                    for (int e = 0; e < kParts; ++e) parts[e] = score[i][j + kPlace + e];
                    Run run;
                    copy_bits(run, parts);
#pragma unroll
                    for (int e = 0; e < 4; ++e) score[i][j + e] = fused_multiply_add(number(type, run[e]), kLog2EHigh, minus[i]);
                }
        });
    }
    // A row at a time: loads of all would spill.
    ATTILE_LANE_FN void add(const AttentionParams &p, int tile_key, const float (&)[C::kRows], Scores &score) const {
        for_each_number(
            p, tile_key, [](float bias, float, float &score_of) { score_of = fused_multiply_add(bias, kLog2EHigh, score_of); }, {}, score);
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
    ATTILE_LANE_FN void mend_far(const AttentionParams &p, int tile_key, const float (&minus)[C::kRows], Scores &score) const {
        bool any_far = false;
#pragma unroll
        for (int i = 0; i < C::kRows; ++i) {
            float top = score[i][0];
#pragma unroll
            for (int j = 1; j < C::kKeys; ++j) top = fmaxf(top, score[i][j]);
            any_far = any_far || !(fabsf(top - minus[i]) <= 0.5f * kFarScore);
        }
        if (!lane_any(any_far)) return;
        for_each_number(
            p, tile_key,
            [](float bias, float minus_of, float &score_of) {
                if (gpu::is_far(bias * kLog2EHigh) && score_of == score_of) score_of = far_score(bias) + minus_of;
            },
            minus, score);
    }
    ATTILE_LANE_FN void begin_anew(const AttentionParams &p, int tile_key, const float (&minus)[C::kRows], Scores &score) const {
        begin_plainly<C>(minus, score);
        add(p, tile_key, minus, score);
    }

  private:
    static ATTILE_LANE_FN float number(float, float x) { return x; }
    static ATTILE_LANE_FN float number(F16, uint16_t bits) { return to_compute(F16{bits}); }
    static ATTILE_LANE_FN float number(BF16, uint16_t bits) { return to_compute(BF16{bits}); }
    // body(a number of the bias's type)
    template <class Body>
    static ATTILE_LANE_FN void with_type(const AttentionParams &p, const Body &body) {
        if constexpr (sizeof(T) == sizeof(float))
            body(0.0f);
        else if (p.bias.storage == AttentionStorage::kF16)
            body(F16{});
        else
            body(BF16{});
    }
    template <class Step>
    ATTILE_LANE_FN void for_each_number(const AttentionParams &p, int tile_key, const Step &step, const float (&minus)[C::kRows],
                                        Scores &score) const {
#pragma unroll 1
        for (int row = 0; row < C::kRows; ++row) {
            Rows::load_row(p.bias.row_bytes, p.len_k - 4, tile_key, row, [&](int, int j, const Run &run) {
                float bias[4];
                with_type(p, [&](auto type) ATTILE_ALWAYS_INLINE {
#pragma unroll
                    for (int e = 0; e < 4; ++e) bias[e] = number(type, run[e]);
                });
#pragma unroll
                for (int i = 0; i < C::kRows; ++i)
#pragma unroll
                    for (int e = 0; e < 4; ++e)
                        if (i == row) step(bias[e], minus[i], score[i][j + e]);
            });
        }
    }
};

template <class C>
class ScoreStart<C, AttentionKind::kBiased> : public BiasStart<C, float> {
  public:
    ATTILE_LANE_FN ScoreStart(const AttentionParams &p, const AttentionBlock &block, float *shared)
        : BiasStart<C, float>(p, block, shared) {}
};
template <class C>
class ScoreStart<C, AttentionKind::kBiasedHalf> : public BiasStart<C, uint16_t> {
  public:
    ATTILE_LANE_FN ScoreStart(const AttentionParams &p, const AttentionBlock &block, float *shared)
        : BiasStart<C, uint16_t>(p, block, shared) {}
};

template <class C>
class ScoreStart<C, AttentionKind::kAllowed> : public StartRows<C, uint8_t> {
  public:
    static constexpr bool kLate = false;
    static constexpr uint32_t kFar = 0;
    ATTILE_LANE_FN void load_first(const AttentionParams &p, int tile_key, float (&score)[C::kRows][C::kKeys]) const {
        load(p, tile_key, score);
    }
    ATTILE_LANE_FN void add(const AttentionParams &, int, const float (&)[C::kRows], float (&)[C::kRows][C::kKeys]) const {}
    ATTILE_LANE_FN void begin_anew(const AttentionParams &p, int tile_key, const float (&minus)[C::kRows],
                                   float (&score)[C::kRows][C::kKeys]) const {
        load(p, tile_key, score);
        begin(p, tile_key, false, minus, score);
    }
    ATTILE_LANE_FN ScoreStart(const AttentionParams &p, const AttentionBlock &block, float *shared)
        : StartRows<C, uint8_t>(p.allowed, block, shared) {}
    // A run is kept in the first of its scores.
    ATTILE_LANE_FN void load(const AttentionParams &p, int tile_key, float (&score)[C::kRows][C::kKeys]) const {
        StartRows<C, uint8_t>::load(p.allowed.row_bytes, p.len_k - 4, tile_key, [&](int i, int j, const Vec<uint8_t, 4> &run) {
            uint32_t bytes;
            copy_bits(bytes, run);
            score[i][j] = __uint_as_float(bytes);
        });
    }
    ATTILE_LANE_FN void begin(const AttentionParams &, int, bool, const float (&minus)[C::kRows],
                              float (&score)[C::kRows][C::kKeys]) const {
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
    ATTILE_LANE_FN ScoreStart(const AttentionParams &p, const AttentionBlock &block, float *shared) : line_(shared) {
        const int lane = lane_index(), shift = block.entry.shift;
        const AlibiSlope slope(
            load_number(p.alibi_slopes, block.entry.batch * p.alibi_slopes.stride[0] + block.place.head * p.alibi_slopes.stride[1]));
        line_.set({slope.high, slope.low, block.first_row + lane_group_index() * Lanes::kGroupRows + Lanes::lane_row(lane) * 4 + shift,
                   LaneKeys<C>::first(Lanes::lane_col(lane))});
    }
    ATTILE_LANE_FN void load_first(const AttentionParams &, int, float (&)[C::kRows][C::kKeys]) const {}
    ATTILE_LANE_FN void load(const AttentionParams &, int, float (&)[C::kRows][C::kKeys]) const {}
    ATTILE_LANE_FN void begin(const AttentionParams &, int tile_key, bool late, const float (&minus)[C::kRows],
                              float (&score)[C::kRows][C::kKeys]) const {
        if (late) {  // Not from the lifts, either: they may be large, where no key is near.
            constexpr float kZero[C::kRows] = {};
            return begin_plainly<C>(kZero, score);
        }
        const Line line = line_.get();
        constexpr int kLast = LaneKeys<C>::after(C::kKeys - 1), kLastRow = Lanes::row(C::kRows - 1);
        const int first = line.first(tile_key);  // The first key's distance from the first row's diagonal.
        const bool is_right = first >= kLastRow, is_left = first + kLast <= 0;
        if (lane_all(is_right || is_left)) {
            // Counted from the key next to the diagonal, away from it: no number is larger than its distance.
            const float step = is_right ? -line.high : line.high, high = is_right ? line.high : -line.high;
            const float low = is_right ? line.low : -line.low, nearest = static_cast<float>(is_right ? first : first + kLast);
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
            add_everywhere(line, tile_key, score);
        }
    }
    // The references are still those that it began with.
    ATTILE_LANE_FN void add(const AttentionParams &, int tile_key, const float (&minus)[C::kRows],
                            float (&score)[C::kRows][C::kKeys]) const {
        const Line line = line_.get();
        const float first = static_cast<float>(line.first(tile_key));
#pragma unroll
        for (int i = 0; i < C::kRows; ++i)
#pragma unroll
            for (int j = 0; j < C::kKeys; ++j)
                score[i][j] += line.lower(minus[i], fabsf(first + static_cast<float>(LaneKeys<C>::after(j) - Lanes::row(i))));
    }
    ATTILE_LANE_FN void begin_anew(const AttentionParams &, int tile_key, const float (&minus)[C::kRows],
                                   float (&score)[C::kRows][C::kKeys]) const {
        begin_plainly<C>(minus, score);
        add_everywhere(line_.get(), tile_key, score);
    }
    // What ALiBi takes at least of row i's scores of keys from `low` to `high`. References begin with that of all keys that the row sees:
    // a reference that followed ALiBi from tile to tile would have to move with each.
    ATTILE_LANE_FN float lift(int i, int low, int high) const {
        const Line line = line_.get();
        const int at = line.diagonal + Lanes::row(i);
        return fmaxf(line.high, 0.0f) * static_cast<float>(max(max(low - at, at - high), 0));
    }
    // Of tiles from `first_tile` to `end_tile`.
    ATTILE_LANE_FN void first_references(const AttentionParams &p, const AttentionBlock &block, int first_tile, int end_tile,
                                         float (&minus)[C::kRows]) const {
        constexpr int kBlockKeys = C::kKeys * C::kLaneCols;
        const int row = block.first_row + lane_group_index() * Lanes::kGroupRows + Lanes::lane_row(lane_index()) * 4;
#pragma unroll
        for (int i = 0; i < C::kRows; ++i) {
            const KeyRange range = block.range(p, row + Lanes::row(i));
            minus[i] = lift(i, max(range.low, first_tile * kBlockKeys), min(range.high, end_tile * kBlockKeys) - 1);
        }
    }
    // Where references began too high for what came, what probabilities lost below the least float may count: such rows are made NaN, so
    // that they are done again. A bit of `unset` is a row that saw no key.
    static ATTILE_LANE_FN void spoil_small_sums(uint32_t unset, const float (&sum)[C::kRows], float (&out)[C::kRows][C::kCols]) {
#pragma unroll
        for (int i = 0; i < C::kRows; ++i)
            if ((unset >> i & 1) == 0 && !(sum[i] > 0x1p-60f)) out[i][0] = NAN;
    }

  private:
    // A slope in units of log2, in two floats as AlibiSlope has it; the key on the first row's diagonal, and the lane's first of a tile.
    struct alignas(16) Line {
        float high, low;
        int diagonal, first_key;
        ATTILE_LANE_FN int first(int tile_key) const { return tile_key + first_key - diagonal; }
        ATTILE_LANE_FN float lower(float score, float distance) const {
            return fused_multiply_add(-high, distance, fused_multiply_add(-low, distance, score));
        }
    };
    ATTILE_LANE_FN void add_everywhere(const Line &line, int tile_key, float (&score)[C::kRows][C::kKeys]) const {
        const float first = static_cast<float>(line.first(tile_key));
#pragma unroll
        for (int i = 0; i < C::kRows; ++i)
#pragma unroll
            for (int j = 0; j < C::kKeys; ++j)
                score[i][j] = line.lower(score[i][j], fabsf(first + static_cast<float>(LaneKeys<C>::after(j) - Lanes::row(i))));
    }

    LaneStore<C, Line, C::kFewRegisters> line_;

  public:
    static constexpr int kSharedFloats = decltype(line_)::kSharedFloats;
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
