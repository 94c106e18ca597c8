// SPDX-License-Identifier: Apache-2.0
// Softcap of a thread's scores.
#pragma once

#include "numeric.h"

namespace attile::gpu::mma {

// cap tanh(scale s / cap), in the units of both, less `less` of the thread's two rows. Where no score of a warp is large: an odd
// minimax polynomial, whose coefficients contain the scale (largest errors 4e-8 and 6e-8 of the result, the rounding of float32). Where
// some score is: an exponential each and one reciprocal for two scores. Where that would pass float32's range, or results must not depend
// on other rows: tanh_fast() for each. may_look: no key is hidden; the score of a hidden key may be anything. finish() follows on each way,
// so that the compiler interleaves the two.
template <int kScores, class Finish>
__device__ __forceinline__ void cap_scores(float cap, float scale, bool may_look, const float (&less)[2], float (&s)[kScores],
                                           const Finish &finish) {
    const float softcap = fminf(fmaxf(cap, 1e-37f), 1e37f), rough = reciprocal_fast(softcap);  // The reciprocal has full precision.
    const float per_cap = scale * __builtin_fmaf(rough, __builtin_fmaf(-softcap, rough, 1.0f), rough), size = fabsf(per_cap);
    const auto all_below = [&](float largest, float bound) { return __all_sync(~0u, largest * size < bound && largest < 1e15f); };
    if (may_look && size < 1e3f && fabsf(scale) < 1e15f) {
        float most[4] = {fabsf(s[0]), fabsf(s[1]), fabsf(s[2]), fabsf(s[3])};
#pragma unroll
        for (int i = 4; i < kScores; ++i) most[i % 4] = fmaxf(most[i % 4], fabsf(s[i]));
        const float largest = fmaxf(fmaxf(most[0], most[1]), fmaxf(most[2], most[3])), square = per_cap * per_cap;
        if (all_below(largest, 0.35f)) {
            const float c1 = scale * square * -0.333326697f, c2 = scale * square * square * 0.133000106f,
                        c3 = scale * square * square * square * -0.0491593108f;
#pragma unroll
            for (int i = 0; i < kScores; ++i) {
                float &x = s[i];
                const float y = x * x;
                x = __builtin_fmaf(x, __builtin_fmaf(y, __builtin_fmaf(y, __builtin_fmaf(y, c3, c2), c1), scale), -less[i / 2 % 2]);
            }
            finish();
            return;
        }
        if (all_below(largest, 0.8f)) {
            const float second = square * square;
            const float c1 = scale * square * -0.333328933f, c2 = scale * second * 0.133231759f,
                        c3 = scale * square * second * -0.0531955473f, c4 = scale * second * second * 0.0192264114f,
                        c5 = scale * square * second * second * -0.00443368172f;
#pragma unroll
            for (int i = 0; i < kScores; ++i) {
                float &x = s[i];
                const float y = x * x;
                float f = __builtin_fmaf(y, c5, c4);
                f = __builtin_fmaf(y, f, c3);
                f = __builtin_fmaf(y, f, c2);
                f = __builtin_fmaf(y, f, c1);
                x = __builtin_fmaf(x, __builtin_fmaf(y, f, scale), -less[i / 2 % 2]);
            }
            finish();
            return;
        }
        if (all_below(largest, 20.0f)) {
            const float twice = per_cap * 2.88539008f;
#pragma unroll
            for (int i = 0; i < kScores; i += 2) {
                const float a = exp2_fast(s[i] * twice) + 1.0f, b = exp2_fast(s[i + 1] * twice) + 1.0f;
                const float share = reciprocal_fast(a * b) * (-2.0f * softcap);
                s[i] = __builtin_fmaf(share, b, softcap - less[i / 2 % 2]);
                s[i + 1] = __builtin_fmaf(share, a, softcap - less[i / 2 % 2]);
            }
            finish();
            return;
        }
    }
#pragma unroll
    for (int i = 0; i < kScores; ++i) s[i] = __builtin_fmaf(softcap, tanh_fast(s[i] * per_cap), -less[i / 2 % 2]);
    finish();
}

}  // namespace attile::gpu::mma
