// SPDX-License-Identifier: Apache-2.0
// A bias of 16-bit numbers, which lies in shared memory as rows of a tile do, on a thread's scores: those of row lane / 4 and of the one
// eight below, keys 8 j + 2 (lane % 4) + 0, 1.
#pragma once

#include "attention/score.h"
#include "mma/ptx.cuh"
#include "vec.h"

namespace attile::gpu::mma {

// c s + bias, in units of log2, less `less`. at(i): what this lane gives to load_matrices() for keys 16 i to 16 i + 15: the address of
// key 16 i + 8 (lane / 16) in row lane % 16.
template <class Element, int kScores, class At>
__device__ __forceinline__ void add_bias(float c, const float (&less)[2], float (&s)[kScores], const At &at) {
#pragma unroll
    for (int i = 0; i < kScores / 8; ++i) {
        uint32_t pairs[4];
        load_matrices(pairs, at(i));
#pragma unroll
        for (int h = 0; h < 4; ++h) {
            const float2 bias = widen_pair<Element>(pairs[h]);
            float &x = s[8 * i + 2 * h], &y = s[8 * i + 2 * h + 1];
            x = __builtin_fmaf(x, c, __builtin_fmaf(bias.x, kLog2EHigh, -less[h % 2]));
            y = __builtin_fmaf(y, c, __builtin_fmaf(bias.y, kLog2EHigh, -less[h % 2]));
        }
    }
}
// Calls step(score, bias) for the thread's scores. at(j, r): the address of its pair of keys j in row r.
template <class Element, int kScores, class At, class Step>
__device__ __forceinline__ void for_each_bias(float (&s)[kScores], const At &at, const Step &step) {
#pragma unroll
    for (int j = 0; j < kScores / 4; ++j) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            uint32_t pair;
            asm volatile("ld.shared.b32 %0, [%1];" : "=r"(pair) : "r"(at(j, r)) : "memory");
            const float2 bias = widen_pair<Element>(pair);
            step(s[4 * j + 2 * r], bias.x);
            step(s[4 * j + 2 * r + 1], bias.y);
        }
    }
}
// Where a score is not finite and the bias is -inf, their sum is NaN; but the bias hides the key.
__device__ __forceinline__ void hide_by_bias(float &score, float bias) { score = score != score && bias == -INFINITY ? -INFINITY : score; }
// A score with a far bias, as numeric.h represents it.
__device__ __forceinline__ void set_far_score(float &score, float bias) {
    if (is_far(bias * kLog2EHigh) && score == score) score = far_score(bias);
}
// Is a row_max far from 0 or infinite, in units of log2? Beyond it the rounding of a reference alone may pass float16's range.
__device__ __forceinline__ bool is_far_row(const float (&row_max)[2]) {
    constexpr float kMost = 0x1p24f;
    return !(fabsf(row_max[0]) <= kMost && fabsf(row_max[1]) <= kMost);
}

}  // namespace attile::gpu::mma
