// SPDX-License-Identifier: Apache-2.0
// ALiBi on a thread's scores: those of row lane / 4 and of the one eight below, keys 8 j + 2 (lane % 4) + 0, 1 of a tile.
#pragma once

#include "attention/score.h"
#include "vec.h"

namespace attile::gpu::mma {

// c s - slope |key - diagonal|, less `less`, for row r, on one side of the diagonal: what is subtracted grows by the slope from key to key.
// first_key: the thread's. The slope is finite.
template <int kScores>
__device__ __forceinline__ void lower_on_one_side(const AlibiSlope &slope, int r, int first_key, int diagonal, float c, float less,
                                                  float (&s)[kScores]) {
    const float distance = static_cast<float>(first_key - diagonal);
    const float first = slope.lower(-less, fabsf(distance)), step = distance < 0 ? slope.high : -slope.high;
#pragma unroll
    for (int j = 0; j < kScores / 4; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            float &x = s[4 * j + 2 * r + e];
            x = __builtin_fmaf(x, c, __builtin_fmaf(step, static_cast<float>(8 * j + e), first));
        }
    }
}
// The same anywhere.
template <int kScores>
__device__ __forceinline__ void lower_by_distance(const AlibiSlope &slope, int r, int first_key, int diagonal, float c, float less,
                                                  float (&s)[kScores]) {
    const float distance = static_cast<float>(first_key - diagonal);
#pragma unroll
    for (int j = 0; j < kScores / 4; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            float &x = s[4 * j + 2 * r + e];
            x = slope.lower(__builtin_fmaf(x, c, -less), fabsf(distance + static_cast<float>(8 * j + e)));
        }
    }
}

}  // namespace attile::gpu::mma
