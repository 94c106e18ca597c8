// SPDX-License-Identifier: Apache-2.0
// A step of the decode kernel: scores, online softmax and O of a lane group's rows.
#pragma once

#include "attention/simt/decode_loader.cuh"

namespace attile::gpu::simt {

// A row of which a lane holds a score of each step: which keys it sees, and what modifies its scores.
struct HeldRow {
    KeyRange range;
    ScoreModifiers modifiers;

    template <class C>
    ATTILE_LANE_FN HeldRow(const DecodeRows<C> &at, int row)
        : range(at.range_of(row)), modifiers(at.p, at.entry, query_head(at.p, at.place.head, row), query_row(at.p, row)) {}
};
// Those of all scores that a lane holds, found once, where there are registers for them.
template <int kCount>
struct HeldRows {
    HeldRow row[kCount];

    template <class C>
    ATTILE_LANE_FN HeldRows(const DecodeRows<C> &at, int first_score)
        : HeldRows(at, first_score, std::make_integer_sequence<int, kCount>()) {}

  private:
    template <class C, int... kIndex>
    ATTILE_LANE_FN HeldRows(const DecodeRows<C> &at, int first_score, std::integer_sequence<int, kIndex...>)
        : row{HeldRow(at, min(at.first_row + (first_score + kIndex) % C::kRows, at.rows - 1))...} {}
};
struct NoRows {
    template <class C>
    ATTILE_LANE_FN NoRows(const DecodeRows<C> &, int) {}
};

// The online softmax of a lane group's rows, and its O. A lane's arrays are the kernel's: as members, or by reference in members, they
// would come into registers later than what is around them, and in more.
template <class C, bool kPlain>
struct DecodeSoftmax {
    static constexpr int kRows = C::kRows, kLoads = C::kLoads, kQuads = C::kQuads, kScores = C::kScores, kHeld = C::kHeld;
    // Lanes whose numbers differ in these bits hold the same row's scores of other keys.
    static constexpr int kRowStep = (kRows > kHeld ? kRows / kHeld : 1) * C::kCopies;
    static constexpr bool kHoldsRows = !kPlain && (C::kIsLarge || kHeld == 1);
    using Rows = std::conditional_t<kHoldsRows, HeldRows<kHeld>, NoRows>;
    using Step = typename DecodeLoader<C, kPlain>::Step;
    using Scales = typename DecodeLoader<C, kPlain>::Scales;
    using Output = float[kRows][kQuads * 4];
    using Held = float[kHeld];  // Of the scores that a lane holds.
    using Flags = bool[kHeld];
    const DecodeRows<C> &at;
    const int first_score;  // A lane holds scores number first_score + h, kRows to a key.

    // ---- S = Q K^T: a lane's part of each score, over its columns.
    ATTILE_LANE_FN void multiply_keys(const Output &q, const Step &keys, const Scales &scales, float (&score)[kScores]) const {
#pragma unroll
        for (int t = 0; t < kLoads; ++t) {
            DecodeNumbers<C> number;
            widen<C>(keys[t], number);
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                float dot = 0;
#pragma unroll
                for (int x = 0; x < kQuads * 4; ++x) dot = fused_multiply_add(q[r][x], number[x], dot);
                score[t * kRows + r] = dot;
            }
        }
        if constexpr (C::kHasScales) {
            if (!at.p.k_scale.by_key) return;
#pragma unroll
            for (int t = 0; t < kLoads; ++t) {
                const float scale = DecodeLoader<C, kPlain>::scale_of(scales, t);
#pragma unroll
                for (int r = 0; r < kRows; ++r) score[t * kRows + r] *= scale;
            }
        }
    }
    // Sums over the lanes of a row by halves: each exchange halves what a lane is left with.
    ATTILE_LANE_FN void add_lanes(float (&score)[kScores]) const {
        int left = kScores;
#pragma unroll
        for (int step = C::kQuadLanes / 2; step > 0; step /= 2) {
            if (left > 1) {
                left /= 2;
                const bool upper = (at.lane & step) != 0;
#pragma unroll
                for (int s = 0; s < kScores / 2; ++s) {
                    if (s >= left) continue;
                    score[s] = pick(upper, score[s + left], score[s]) + shuffle_xor(pick(upper, score[s], score[s + left]), step);
                }
            } else {
                score[0] += shuffle_xor(score[0], step);
            }
        }
    }
    ATTILE_LANE_FN int key_of(int h, int first_key) const { return first_key + (first_score + h) / kRows * C::kKeyCols + at.key_col; }
    // Sends for what the next step's scores will want.
    ATTILE_LANE_FN void prefetch(const Rows &held, int first_key) const {
        if constexpr (kHoldsRows) {
#pragma unroll
            for (int h = 0; h < kHeld; ++h) held.row[h].modifiers.prefetch(min(key_of(h, first_key), max(at.entry.len_k - 1, 0)));
        }
    }
    // Masks and modifiers; `missing`: keys whose page does not exist.
    ATTILE_LANE_FN void modify(const Rows &held, bool masked, int first_key, uint32_t missing, float (&score)[kScores],
                               bool (&hidden)[kHeld]) const {
        const AttentionParams &p = at.p;
#pragma unroll
        for (int h = 0; h < kHeld; ++h) {
            hidden[h] = false;
            if (masked) {
                const int t = (first_score + h) / kRows, row = min(at.first_row + (first_score + h) % kRows, at.rows - 1);
                const int key = key_of(h, first_key);
                if constexpr (kHoldsRows) {
                    hidden[h] = !held.row[h].range.has(key) || (missing >> t & 1) != 0;
                    if (!hidden[h] && p.modifiers) score[h] = held.row[h].modifiers.apply_once(score[h], key);
                } else {
                    hidden[h] = !at.range_of(row).has(key) || (!kPlain && (missing >> t & 1) != 0);
                    if (!kPlain && !hidden[h] && p.modifiers) {
                        const ScoreModifiers modifiers(p, at.entry, query_head(p, at.place.head, row), query_row(p, row));
                        hidden[h] = !modifiers.shows(key);
                        score[h] = modifiers.apply(score[h], key);
                    }
                }
                if (hidden[h]) score[h] = -INFINITY;
            }
        }
    }
    // Does a score need a higher reference, and does one vanish? Those of -inf take no part.
    ATTILE_LANE_FN void look(const float (&score)[kScores], const Held &minus_reference, const Flags &unset, Flags &hidden, bool &needs,
                             bool &vanishes) const {
#pragma unroll
        for (int h = 0; h < kHeld; ++h) {
            vanishes = vanishes || score[h] == -INFINITY;
            hidden[h] = hidden[h] || score[h] == -INFINITY;
            needs = needs || (unset[h] && score[h] != -INFINITY) || score[h] + minus_reference[h] > 16.0f;
        }
    }
    // References: of each row, the same in all lanes that hold its scores. Sums and O follow.
    ATTILE_LANE_FN void raise_references(const float (&score)[kScores], Held &minus_reference, Held &sum, Flags &unset, Output &out) const {
#pragma unroll
        for (int h = 0; h < kHeld; ++h) {
            float top = score[h];
            if (kHeld > kRows) {
#pragma unroll
                for (int other = 0; other < kHeld; ++other)
                    if (other % kRows == h % kRows) top = fmaxf(top, score[other]);
            }
#pragma unroll
            for (int step = kRowStep; step < kLanes; step *= 2) top = fmaxf(top, shuffle_xor(top, step));
            const float before = -minus_reference[h];
            const float higher = top == -INFINITY ? before : unset[h] ? top : fmaxf(top, before);
            const float factor = unset[h] ? 1.0f : exp2_fast(before - higher);
            if (top != -INFINITY) unset[h] = false;
            minus_reference[h] = -higher;
            sum[h] *= factor;
            // Every lane needs the factors of all rows.
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                if (kHeld < kRows ? (r % kHeld != h) : (h != r)) continue;
                const float row_factor = shuffle(factor, r / kHeld * C::kCopies);
#pragma unroll
                for (int x = 0; x < kQuads * 4; ++x) out[r][x] *= row_factor;
            }
        }
    }
    // Probabilities, to the strip. A negative one marks a key that the row does not see: zero times what V holds there might be NaN.
    ATTILE_LANE_FN void exponentiate(const float (&score)[kScores], const Flags &hidden, const Held &minus_reference, Held &sum,
                                     float *strip) const {
#pragma unroll
        for (int h = 0; h < kHeld; ++h) {
            const float probability = exp2_fast(score[h] + minus_reference[h]);
            sum[h] += probability;
            strip[at.key_col * kScores + first_score + h] = hidden[h] ? -1.0f : probability;
        }
    }
    // ---- O += P V, a lane's columns and keys.
    template <bool kSkipsHidden>
    ATTILE_LANE_FN void multiply_values(const float *strip, const Step &values, const Scales &scales, Output &out) const {
#pragma unroll
        for (int t = 0; t < kLoads; ++t) {
            float probability[kRows];
#pragma unroll
            for (int r = 0; r < kRows; ++r) probability[r] = strip[at.key_col * kScores + t * kRows + r];
            DecodeNumbers<C> number;
            widen<C>(values[t], number);
            if constexpr (C::kHasScales) {
                if (at.p.v_scale.by_key) {
                    const float scale = DecodeLoader<C, kPlain>::scale_of(scales, t);
#pragma unroll
                    for (int x = 0; x < kQuads * 4; ++x) number[x] *= scale;
                }
            }
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                if (kSkipsHidden && probability[r] < 0) continue;
#pragma unroll
                for (int x = 0; x < kQuads * 4; ++x) out[r][x] = fused_multiply_add(probability[r], number[x], out[r][x]);
            }
        }
    }
    // ---- The group's result: sums over lanes, O over key columns.
    ATTILE_LANE_FN void total(const Held &minus_reference, const Held &sum, const Flags &unset, Output &out, float (&row_sum)[kRows],
                              float (&row_reference)[kRows]) const {
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            // The lanes that hold row r differ in the bits above kRowStep; all get the total, and the first of them passes it on.
            const int h = kHeld < kRows ? r % kHeld : r;
            float total = 0;
#pragma unroll
            for (int other = 0; other < kHeld; ++other)
                if (other % kRows == h % kRows) total += sum[other];
#pragma unroll
            for (int step = kRowStep; step < kLanes; step *= 2) total += shuffle_xor(total, step);
            const int holder = (kHeld < kRows ? r / kHeld : 0) * C::kCopies;
            row_sum[r] = shuffle(total, holder);
            // A row whose scores are NaN, and hidden besides, has no reference either, but its sum tells that it saw keys.
            row_reference[r] = shuffle(unset[h] && total == 0 ? -INFINITY : -minus_reference[h], holder);
#pragma unroll
            for (int x = 0; x < kQuads * 4; ++x)
#pragma unroll
                for (int step = C::kQuadLanes; step < kLanes; step *= 2) out[r][x] += shuffle_xor(out[r][x], step);
        }
    }
};

}  // namespace attile::gpu::simt
