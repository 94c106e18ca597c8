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

// kMostSum: see above. Spreads of scores in units of log2, largest less smallest: below kNarrowSpread in a masked tile, and below
// kWideSpread in a whole one, tiles are not looked at from then on.
template <class Element>
struct SoftmaxRange {
    static constexpr float kTop = 0,
                           kSlack = 0;  // Where a moved reference leaves the largest score, units of log2, and how far it may rise.
    static constexpr float kMostSum = 1.2676506e30f, kNarrowSpread = 64, kWideSpread = 330;
    static constexpr bool kCorrects = false;
};
template <>
struct SoftmaxRange<F16> {
    static constexpr float kTop = 5, kSlack = 13;  // f16 keeps its precision down to 2^-14 and ends below 2^16.
    static constexpr float kMostSum = 32768, kNarrowSpread = 14, kWideSpread = 22;
    static constexpr bool kCorrects = true;
};

// The same for kernels without registers to spare: the reference moves with every larger maximum, in f16 too, so that nothing is rounded
// that would need correction.
template <class Element>
struct ExactSoftmaxRange {
    static constexpr float kTop = SoftmaxRange<Element>::kTop, kSlack = kTop;
    static constexpr bool kCorrects = false;
};

// A row that has seen no key. Finite, so that nothing is subtracted from itself to NaN; no score comes near it.
inline constexpr float kNoReference = -3.0e38f;

template <class Element, int kScores, class Range_ = SoftmaxRange<Element>>
class RowSoftmax {
  public:
    using Range = Range_;
    float reference[2], sum[2], factor[2];
    bool moved;  // This step moved a reference: O is to be multiplied by factor.

    __device__ __forceinline__ void begin() {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            reference[r] = kNoReference;
            sum[r] = 0;
            rounding[r] = 0;
            if (Range::kCorrects) largest_[r] = -INFINITY;
        }
        moved = false;
    }

    // c is scale * log2(e), positive. Without slack the largest probability is always 2^kTop.
    __device__ __forceinline__ void find_reference(const float (&s)[kScores], float c, bool has_slack) {
        float top[2];
        largest(s, top);
        follow(top, c, has_slack);
    }
    __device__ __forceinline__ void follow(const float (&top)[2], float c, bool has_slack) {
        moved = __any_sync(~0u, is_passed(top, c, has_slack));
        if (moved) move_reference(top, c, has_slack);
        note_top(top);
    }
    // The same in steps. A thread's view of whether a score passes a row's reference:
    __device__ __forceinline__ bool is_passed(const float (&top)[2], float c, bool has_slack) const {
        const float slack = slack_of(has_slack);
        return top[0] * c - reference[0] > slack || top[1] * c - reference[1] > slack;
    }
    __device__ __forceinline__ void move_reference(const float (&top)[2], float c, bool has_slack) {
        const float slack = slack_of(has_slack), level[2] = {top[0] * c, top[1] * c};
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const float next = level[r] - reference[r] > slack ? level[r] - Range::kTop : reference[r];
            factor[r] = exp2_fast(reference[r] - next);
            reference[r] = next;
            sum[r] *= factor[r];
            if (Range::kCorrects) rounding[r] *= factor[r];
        }
    }
    __device__ __forceinline__ void note_top(const float (&top)[2]) {
        if (Range::kCorrects) {
            top_[0] = top[0];
            top_[1] = top[1];
        }
    }
    // Of each whole row.
    static __device__ __forceinline__ void largest(const float (&s)[kScores], float (&found)[2]) { fold<Pick::kLargest>(s, found); }
    static __device__ __forceinline__ void largest_or_nan(const float (&s)[kScores], float (&found)[2]) {
        fold<Pick::kLargestOrNan>(s, found);
    }

    // s becomes the probabilities; `share` is this thread's part of the rows' sums over them.
    __device__ __forceinline__ void exponentials(float (&s)[kScores], float c, float (&share)[2]) const {
        share[0] = share[1] = 0;
#pragma unroll
        for (int j = 0; j < kScores; j += 4) {
#pragma unroll
            for (int e = 0; e < 4; ++e) s[j + e] = exp2_fast(__builtin_fmaf(s[j + e], c, -reference[e / 2]));
            // By pairs: ptxas lets each sum wait for the exponential two before, less than it takes where warps compete for the unit. One
            // sum a pair waits half as often: 4 points of the tensor cores at 64 columns.
            share[0] += s[j] + s[j + 1];
            share[1] += s[j + 2] + s[j + 3];
        }
    }
    __device__ __forceinline__ void exact_exponentials(float (&s)[kScores], float c) {
        float share[2];
        exponentials(s, c, share);
        sum[0] += share[0];
        sum[1] += share[1];
        if (Range::kCorrects) note_rounding(c);
    }
    // An exact step where scores are far from 0 (numeric.h), or rows all hidden. They are multiplied by c first: a reference rounded apart
    // from its score would show.
    __device__ __forceinline__ void take_far(float (&s)[kScores], float c, bool has_slack) {
        float top[2], share[2];
        largest(s, top);
#pragma unroll
        for (float &x : s) x *= c;
        const float scaled[2] = {top[0] * c, top[1] * c};
        follow(scaled, 1, has_slack);
        exponentials(s, 1, share);
        sum[0] += share[0];
        sum[1] += share[1];
#pragma unroll
        for (int r = 0; r < 2 && Range::kCorrects; ++r) {
            if (top[r] > largest_[r]) note_probability(r, top[r], scaled[r] - reference[r]);
        }
    }
    // Of the largest probability so far, by the score that find_reference met.
    __device__ __forceinline__ void note_rounding(float c) {
        if (!__any_sync(~0u, top_[0] > largest_[0] || top_[1] > largest_[1])) return;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            if (!(top_[r] > largest_[r])) continue;
            note_probability(r, top_[r], __builtin_fmaf(top_[r], c, -reference[r]));
        }
    }

    // After exponentials without a look: has a row of this warp outgrown the range, or is a sum not a number?
    static __device__ __forceinline__ bool has_outgrown(const float (&share)[2]) {
        return __any_sync(~0u, !(share[0] < SoftmaxRange<Element>::kMostSum && share[1] < SoftmaxRange<Element>::kMostSum));
    }

    // Of unmasked scores: do a row's lie so far apart that others, not yet seen, may lie beyond the headroom?
    static __device__ __forceinline__ bool spread_is_wide(const float (&s)[kScores], float c) {
        float top[2], bottom[2];
        fold<Pick::kLargest>(s, top);
        fold<Pick::kSmallest>(s, bottom);
        constexpr float kWide = SoftmaxRange<Element>::kWideSpread;
        return !((top[0] - bottom[0]) * c < kWide && (top[1] - bottom[1]) * c < kWide);
    }
    // Of scores of which some are hidden, after find_reference, as far as this thread sees: is the spread, by the tile's first 32 keys, no
    // reason to look any further? Not where a row has seen no key.
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
            is_narrow =
                is_narrow && reference[r] != kNoReference && reference[r] + Range::kTop - lowest * c < SoftmaxRange<Element>::kNarrowSpread;
        }
        return is_narrow;
    }

    // Sums of whole rows, from the four threads that share them.
    __device__ __forceinline__ void total(float (&whole)[2]) const {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            whole[r] = sum[r] + __shfl_xor_sync(~0u, sum[r], 1);
            whole[r] += __shfl_xor_sync(~0u, whole[r], 2);
        }
    }

    float rounding[2];  // Of the largest probability.

  private:
    __device__ __forceinline__ void note_probability(int r, float score, float exponent) {
        const float p = exp2_fast(exponent);
        largest_[r] = score;
        rounding[r] = to_compute(from_compute<Element>(p)) - p;
    }
    static __device__ __forceinline__ float slack_of(bool has_slack) { return has_slack ? Range::kSlack : Range::kTop; }

    float top_[2];      // Of the latest exact step.
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
    // Largest or smallest score of each whole row, in two chains a row. Else NaN is passed over: exponentials carry it on.
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
