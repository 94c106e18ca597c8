// SPDX-License-Identifier: Apache-2.0
// ALiBi on a thread's scores: those of row lane / 4 and of the one eight below, keys 8 j + 2 (lane % 4) + 0, 1 of a tile.
#pragma once

#include "attention/score.h"
#include "mma/ptx.cuh"
#include "vec.h"

namespace attile::gpu::mma {

// c s - slope |key - diagonal|, less `less`, for row r. first_key: the thread's.
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

// slope distance + x, the contrary of AlibiSlope::lower().
__device__ __forceinline__ float raised(const AlibiSlope &slope, float x, float distance) {
    return __builtin_fmaf(slope.high, distance, __builtin_fmaf(slope.low, distance, x));
}

// ALiBi by tensor cores, for a tile of keys on one side of the diagonal: -slope d, d being a key's distance from the tile's key that is
// nearest to the diagonal, joins the product Q K^T as one more step of depth. What is left is the same for all keys of a row, and is
// subtracted in the exponent. So that the sum is in units of Q K^T, the slope is divided by the scale. d is exact in 16 bits; the slope is
// a sum of three numbers of 16 bits, exact to 2^-24 of it, or to 2^-25 where float16 ends. Products are exact, and their sum with the score
// is cut off at 2^-22 of the larger of the two: of keys near the diagonal, whose probabilities are the largest, at that of the score.
template <class Element>
struct AlibiProduct {
    // Slope (of log2) and scale for which it holds: terms stay below 2^8 in units of log2, parts and their products are finite.
    static __device__ __forceinline__ bool takes(float slope, float scale) {
        const float size = fabsf(slope);
        return size <= 2 && scale <= 4 && size <= scale * 0x1p14f;
    }
    // Of A, whose rows are all the same: the pair of depths of each lane % 4.
    static __device__ __forceinline__ void split(float slope, float scale, uint32_t (&pairs)[4]) {
        const float whole = -slope / scale, after_high = whole - rounded(whole), after_middle = after_high - rounded(after_high);
        pairs[0] = narrow_pair<Element>(whole, after_high);
        pairs[1] = narrow_pair<Element>(after_middle, 0);
        pairs[2] = pairs[3] = 0;
    }
    // pair: of A, or 0 for a tile that holds the diagonal. first, step: of d, from the keys' first eight, of which the lane has number
    // lane / 4, and to the next eight.
    template <int kRowTiles, int kScores>
    static __device__ __forceinline__ void add(uint32_t pair, float first, float step, float (&s)[kRowTiles][kScores]) {
#pragma unroll
        for (int j = 0; j < kScores / 4; ++j) {
            const float d = __builtin_fmaf(step, static_cast<float>(j), first);
            const uint32_t distances = narrow_pair<Element>(d, d);
#pragma unroll
            for (int t = 0; t < kRowTiles; ++t) multiply_half<Element>(s[t] + 4 * j, pair, pair, distances);
        }
    }

  private:
    static __device__ __forceinline__ float rounded(float x) { return to_compute(from_compute<Element>(x)); }
};

}  // namespace attile::gpu::mma
