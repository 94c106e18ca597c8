// SPDX-License-Identifier: Apache-2.0
// The online softmax of a thread's two rows: scores become probabilities relative to a reference, 2^(c s - reference).
//
// Exact steps look at each tile's maximum, and move a row's reference where it has to be moved. In bf16 it always moves with the maximum,
// so that the largest probability is 1 and is not rounded. In f16 it moves when a score passes it by more than some slack, and O is
// corrected by the rounding of the largest probability.
//
// Steps without maxima leave the reference. P may then grow to kMostSum with the same relative precision. A row sum above that shows that
// scores grew by more: the warp computes its scores again and makes an exact step. The spread of scores in the first tile, or in the first
// whole one, decides which steps a row takes. Where V is so large that O overflows because of it, the row is repaired like any with an
// infinite V (attention/mma/repair.cuh). More: docs/kernels/attention-sm90.md, "Softmax without maxima".
#pragma once

#include "numeric.h"

namespace attile::gpu::mma {

// kMostSum: see above; kLeastSum: of a thread's keys, where the reference followed something else than the scores. A spread is the largest
// score less the smallest, in units of log2. Below kNarrowSpread in a masked tile, or below kWideSpread in a whole one, later steps go
// without maxima.
template <class Element>
struct SoftmaxRange {
    static constexpr float kTop = 0,
                           kSlack = 0;  // In units of log2: where a moved reference leaves the largest score, and how far it may rise.
    static constexpr float kMostSum = 1.2676506e30f, kLeastSum = 0x1p-80f, kNarrowSpread = 64, kWideSpread = 330;
    static constexpr bool kCorrects = false;
};
template <>
struct SoftmaxRange<F16> {
    static constexpr float kTop = 5, kSlack = 13;  // f16 keeps its precision down to 2^-14 and ends below 2^16.
    static constexpr float kMostSum = 32768, kLeastSum = 1, kNarrowSpread = 14, kWideSpread = 22;
    static constexpr bool kCorrects = true;
};

// The same for kernels without registers to spare: the reference moves with every larger maximum, in f16 too, so that nothing is rounded
// that would need correction.
template <class Element>
struct ExactSoftmaxRange {
    static constexpr float kTop = SoftmaxRange<Element>::kTop, kSlack = kTop;
    static constexpr bool kCorrects = false;
};

// P of e4m3, which ends at 448: where maxima are looked at, the largest probability is 2^kTop and not rounded. Steps without maxima leave
// larger scores to come room for kRoom more.
struct BytesSoftmaxRange {
    static constexpr float kTop = 8, kSlack = kTop, kRoom = 3;
    static constexpr float kMostSum = 448, kLeastSum = 0, kNarrowSpread = 13, kWideSpread = 13;  // kMostSum: of four.
    static constexpr bool kCorrects = false;
};

// A row that has seen no key. Finite, so that nothing is subtracted from itself to NaN; no score comes near it.
inline constexpr float kNoReference = -3.0e38f;

template <class Element, int kScores, class Range_ = SoftmaxRange<Element>>
class RowSoftmax {
  public:
    using Range = Range_;
    using Limits = std::conditional_t<std::is_same_v<Range, BytesSoftmaxRange>, BytesSoftmaxRange, SoftmaxRange<Element>>;
    float reference[2], row_sum[2], factor[2];
    bool moved;  // This step moved a reference: O is to be multiplied by factor.

    __device__ __forceinline__ void begin() {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            reference[r] = kNoReference;
            row_sum[r] = 0;
            rounding[r] = 0;
            if (Range::kCorrects) largest_[r] = -INFINITY;
        }
        moved = false;
    }

    // c is scale * log2(e), positive. Without slack the largest probability is always 2^kTop.
    __device__ __forceinline__ void find_reference(const float (&s)[kScores], float c, bool has_slack) {
        float row_max[2];
        find_row_max(s, row_max);
        follow(row_max, c, has_slack);
    }
    // The same in a step that moved references already: O is to be multiplied by both factors.
    __device__ __forceinline__ void find_reference_again(const float (&s)[kScores], float c, bool has_slack) {
        const bool had_moved = moved;
        const float before[2] = {factor[0], factor[1]};
        find_reference(s, c, has_slack);
        if (!had_moved) return;
        factor[0] = moved ? factor[0] * before[0] : before[0];
        factor[1] = moved ? factor[1] * before[1] : before[1];
        moved = true;
    }
    __device__ __forceinline__ void follow(const float (&row_max)[2], float c, bool has_slack) {
        moved = __any_sync(~0u, is_passed(row_max, c, has_slack));
        if (moved) move_reference(row_max, c, has_slack);
        record_row_max(row_max);
    }
    // Does a score pass a row's reference by more than the slack, as far as this thread sees?
    __device__ __forceinline__ bool is_passed(const float (&row_max)[2], float c, bool has_slack) const {
        const float slack = slack_of(has_slack);
        return row_max[0] * c - reference[0] > slack || row_max[1] * c - reference[1] > slack;
    }
    __device__ __forceinline__ void move_reference(const float (&row_max)[2], float c, bool has_slack) {
        const float slack = slack_of(has_slack), level[2] = {row_max[0] * c, row_max[1] * c};
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const float next = level[r] - reference[r] > slack ? level[r] - Range::kTop : reference[r];
            factor[r] = exp2_fast(reference[r] - next);
            reference[r] = next;
            row_sum[r] *= factor[r];
            if (Range::kCorrects) rounding[r] *= factor[r];
        }
    }
    // References rise by this much, which is not below 0, whatever the scores are.
    __device__ __forceinline__ void raise_reference(const float (&by)[2]) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            factor[r] = exp2_fast(-by[r]);
            reference[r] += by[r];
            row_sum[r] *= factor[r];
            if (Range::kCorrects) rounding[r] *= factor[r];
        }
    }
    __device__ __forceinline__ void record_row_max(const float (&row_max)[2]) {
        if (Range::kCorrects) {
            row_max_[0] = row_max[0];
            row_max_[1] = row_max[1];
        }
    }
    // Of each whole row.
    static __device__ __forceinline__ void find_row_max(const float (&s)[kScores], float (&found)[2]) { fold<Pick::kLargest>(s, found); }
    static __device__ __forceinline__ void find_row_max_or_nan(const float (&s)[kScores], float (&found)[2]) {
        fold<Pick::kLargestOrNan>(s, found);
    }

    // s becomes the probabilities; `share` is this thread's part of the row_sums. is_relative: s are exponents, less the reference already.
    template <bool is_relative = false>
    __device__ __forceinline__ void exponentials(float (&s)[kScores], float c, float (&share)[2]) const {
        exponentials_less<is_relative>(s, c, reference, share);
    }
    // The same with `less` for the references.
    template <bool is_relative = false>
    static __device__ __forceinline__ void exponentials_less(float (&s)[kScores], float c, const float (&less)[2], float (&share)[2]) {
        share[0] = share[1] = 0;
#pragma unroll
        for (int j = 0; j < kScores; j += 4) {
#pragma unroll
            for (int e = 0; e < 4; ++e) s[j + e] = exp2_fast(is_relative ? s[j + e] : __builtin_fmaf(s[j + e], c, -less[e / 2]));
            // Summed by pairs. ptxas places a sum two exponentials behind its own, which is too close where warps compete for the unit. One
            // sum a pair waits half as often.
            share[0] += s[j] + s[j + 1];
            share[1] += s[j + 2] + s[j + 3];
        }
    }
    // The same of a type so narrow that a sum of all probabilities would say little of the largest: `most` is the largest sum of four.
    __device__ __forceinline__ void bounded_exponentials(float (&s)[kScores], float c, float (&share)[2], float (&most)[2]) const {
        share[0] = share[1] = most[0] = most[1] = 0;
#pragma unroll
        for (int j = 0; j < kScores; j += 8) {
#pragma unroll
            for (int e = 0; e < 8; ++e) s[j + e] = exp2_fast(__builtin_fmaf(s[j + e], c, -reference[e / 2 % 2]));
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const float four = (s[j + 2 * r] + s[j + 2 * r + 1]) + (s[j + 4 + 2 * r] + s[j + 5 + 2 * r]);
                share[r] += four;
                most[r] = fmaxf(most[r], four);
            }
        }
    }
    // How far the references rise before the next step, by powers of two, so that `most` of bounded_exponentials() leaves room for larger
    // scores to come.
    __device__ __forceinline__ void plan_rise(const float (&most)[2]) {
        constexpr float kHigh = 128;
        rises_ = __any_sync(~0u, most[0] > kHigh || most[1] > kHigh);
        if (!rises_) return;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float of_row = fmaxf(most[r], __shfl_xor_sync(~0u, most[r], 1));
            of_row = fmaxf(of_row, __shfl_xor_sync(~0u, of_row, 2));
            rise_[r] = of_row > kHigh ? static_cast<float>((__float_as_int(of_row) >> 23) - 127 - 6) : 0.0f;
        }
    }
    // Those of these rows rise by kRoom.
    __device__ __forceinline__ void make_room(bool of_first, bool of_second) {
        rises_ = true;
        rise_[0] = of_first ? Limits::kRoom : 0;
        rise_[1] = of_second ? Limits::kRoom : 0;
    }
    __device__ __forceinline__ void rise_as_planned() {
        moved = rises_;
        if (rises_) raise_reference(rise_);
    }
    __device__ __forceinline__ void exact_exponentials(float (&s)[kScores], float c) {
        float share[2];
        exponentials(s, c, share);
        row_sum[0] += share[0];
        row_sum[1] += share[1];
        if (Range::kCorrects) record_rounding(c);
    }
    // An exact step where scores are far from 0 (numeric.h), or where all of a row is hidden. Scores are multiplied by c first: if
    // reference and score were rounded separately, their difference would be wrong.
    __device__ __forceinline__ void take_far(float (&s)[kScores], float c, bool has_slack) {
        float row_max[2], share[2];
        find_row_max(s, row_max);
#pragma unroll
        for (float &x : s) x *= c;
        const float scaled[2] = {row_max[0] * c, row_max[1] * c};
        follow(scaled, 1, has_slack);
        exponentials(s, 1, share);
        row_sum[0] += share[0];
        row_sum[1] += share[1];
#pragma unroll
        for (int r = 0; r < 2 && Range::kCorrects; ++r) {
            if (row_max[r] > largest_[r]) record_probability(r, row_max[r], scaled[r] - reference[r]);
        }
    }
    // The rounding of the largest probability so far, from the score that find_reference() saw.
    __device__ __forceinline__ void record_rounding(float c) {
        if (!__any_sync(~0u, row_max_[0] > largest_[0] || row_max_[1] > largest_[1])) return;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            if (!(row_max_[r] > largest_[r])) continue;
            record_probability(r, row_max_[r], __builtin_fmaf(row_max_[r], c, -reference[r]));
        }
    }

    // After a step without maxima: has a row of this warp outgrown the range, or is a row_sum NaN?
    static __device__ __forceinline__ bool has_outgrown(const float (&share)[2]) {
        return __any_sync(~0u, !(share[0] < Limits::kMostSum && share[1] < Limits::kMostSum));
    }

    // After a step without maxima whose references rose: are a thread's probabilities so small that the type may not hold them?
    static __device__ __forceinline__ bool has_sunk(const float (&share)[2]) {
        return __any_sync(~0u, !(share[0] > Limits::kLeastSum && share[1] > Limits::kLeastSum));
    }

    // Of unmasked scores: do they lie so far apart that a later score may lie beyond the headroom?
    static __device__ __forceinline__ bool spread_is_wide(const float (&s)[kScores], float c) {
        float row_max[2], bottom[2];
        fold<Pick::kLargest>(s, row_max);
        fold<Pick::kSmallest>(s, bottom);
        constexpr float kWide = Limits::kWideSpread;
        return !((row_max[0] - bottom[0]) * c < kWide && (row_max[1] - bottom[1]) * c < kWide);
    }
    // After find_reference(), where some scores are hidden, and as far as this thread sees: is the spread of the tile's first 32 keys so
    // narrow that later steps can go without maxima? Never where a row has seen no key.
    __device__ __forceinline__ bool spread_is_narrow(const float (&s)[kScores], float c) const {
        bool is_narrow = true;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float lowest = INFINITY;
#pragma unroll
            for (int j = 2 * r; j < 16; j += 4) {
#pragma unroll
                for (int e = 0; e < 2; ++e) lowest = fminf(lowest, s[j + e] == -INFINITY ? INFINITY : s[j + e]);
            }
            is_narrow = is_narrow && reference[r] != kNoReference && reference[r] + Range::kTop - lowest * c < Limits::kNarrowSpread;
        }
        return is_narrow;
    }

    // The row_sums of whole rows, from the four threads that share them.
    __device__ __forceinline__ void total(float (&whole)[2]) const {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            whole[r] = row_sum[r] + __shfl_xor_sync(~0u, row_sum[r], 1);
            whole[r] += __shfl_xor_sync(~0u, whole[r], 2);
        }
    }

    float rounding[2];  // Of the largest probability.

  private:
    __device__ __forceinline__ void record_probability(int r, float score, float exponent) {
        const float p = exp2_fast(exponent);
        largest_[r] = score;
        rounding[r] = to_compute(from_compute<Element>(p)) - p;
    }
    static __device__ __forceinline__ float slack_of(bool has_slack) { return has_slack ? Range::kSlack : Range::kTop; }

    bool rises_ = false;  // What references rise by before the next step, of BytesSoftmaxRange.
    float rise_[2];
    float row_max_[2];  // Of the latest exact step.
    float largest_[2];  // Score that an exact step met.

    enum class Pick { kLargest, kLargestOrNan, kSmallest };
    template <Pick kPick>
    static __device__ __forceinline__ float pick(float a, float b) {
        if constexpr (kPick == Pick::kLargestOrNan) {
            float most;
            asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
            return most;
        }
        return kPick == Pick::kLargest ? fmaxf(a, b) : fminf(a, b);
    }
    // Largest or smallest score of each whole row, in two chains a row. NaN is skipped, except by kLargestOrNan: the exponentials keep it.
    template <Pick kPick>
    static __device__ __forceinline__ void fold(const float (&s)[kScores], float (&found)[2]) {
        float a[2] = {pick<kPick>(s[0], s[1]), pick<kPick>(s[2], s[3])}, b[2] = {pick<kPick>(s[4], s[5]), pick<kPick>(s[6], s[7])};
#pragma unroll
        for (int j = 8; j + 8 <= kScores; j += 8) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                a[r] = pick<kPick>(pick<kPick>(a[r], s[j + 2 * r]), s[j + 2 * r + 1]);
                b[r] = pick<kPick>(pick<kPick>(b[r], s[j + 4 + 2 * r]), s[j + 4 + 2 * r + 1]);
            }
        }
        static_assert(kScores % 8 == 0, "two chains of pairs");
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            found[r] = pick<kPick>(a[r], b[r]);
            found[r] = pick<kPick>(found[r], __shfl_xor_sync(~0u, found[r], 1));
            found[r] = pick<kPick>(found[r], __shfl_xor_sync(~0u, found[r], 2));
        }
    }
};

}  // namespace attile::gpu::mma
