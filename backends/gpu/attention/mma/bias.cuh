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
// scale s + bias. at(i): as above.
template <class Element, int kScores, class At>
__device__ __forceinline__ void add_bias_to_scaled(float scale, float (&s)[kScores], const At &at) {
#pragma unroll
    for (int i = 0; i < kScores / 8; ++i) {
        uint32_t pairs[4];
        load_matrices(pairs, at(i));
#pragma unroll
        for (int h = 0; h < 4; ++h) {
            const float2 bias = widen_pair<Element>(pairs[h]);
            s[8 * i + 2 * h] = __builtin_fmaf(s[8 * i + 2 * h], scale, bias.x);
            s[8 * i + 2 * h + 1] = __builtin_fmaf(s[8 * i + 2 * h + 1], scale, bias.y);
        }
    }
}
// Bits that all of the thread's biases for kKeys keys have in common, of each of its two rows. at(i): as above.
template <int kKeys, class At>
__device__ __forceinline__ void find_common_bits(const At &at, uint32_t (&common)[2]) {
    common[0] = common[1] = ~0u;
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i) {
        uint32_t pairs[4];
        load_matrices(pairs, at(i));
        common[0] &= pairs[0] & pairs[2];
        common[1] &= pairs[1] & pairs[3];
    }
}
// Are these bits of -inf, which only NaN shares with it?
template <class Element>
__device__ __forceinline__ bool is_hiding(uint32_t common) {
    constexpr uint32_t kBits = std::is_same_v<Element, F16> ? 0xfc00fc00u : 0xff80ff80u;
    return (common & kBits) == kBits;
}
// A pair of biases in shared memory.
template <class Element>
__device__ __forceinline__ float2 load_bias(uint32_t from) {
    uint32_t pair;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(pair) : "r"(from) : "memory");
    return widen_pair<Element>(pair);
}
// Calls step(score, bias) for the thread's scores. at(j, r): the address of its pair of keys j in row r.
template <class Element, int kScores, class At, class Step>
__device__ __forceinline__ void for_each_bias(float (&s)[kScores], const At &at, const Step &step) {
#pragma unroll
    for (int j = 0; j < kScores / 4; ++j) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const float2 bias = load_bias<Element>(at(j, r));
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
// Is a row_max far from 0 or infinite, in units of log2 or before the factor of log2(e)? Beyond it the rounding of a reference alone may
// pass float16's range.
__device__ __forceinline__ bool is_near(float row_max) { return fabsf(row_max) <= 0x1p24f; }
__device__ __forceinline__ bool is_far_row(const float (&row_max)[2]) { return !(is_near(row_max[0]) && is_near(row_max[1])); }

}  // namespace attile::gpu::mma
