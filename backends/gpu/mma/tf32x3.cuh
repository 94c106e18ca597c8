// SPDX-License-Identifier: Apache-2.0
// tf32x3: products of float32 by tensor cores, three of TF32 for each. TF32 keeps 11 of a number's 24 bits; so each operand is split, x =
// high + low, where high is x rounded to TF32 and low is what is left, again 11 bits and a sign: all but the last bit of x. A product is
// high high + high low + low high; low low is below the rounding of float32.
//
// Tensor cores cut sums off where float32 rounds them, which over many steps would shift every sum towards zero. Sums of a few steps, begun
// at zero, small terms first, are therefore added to the running sum by ordinary additions.
//
// For infinities and NaN, and for numbers that rounding would make infinite, low is NaN or infinite, and every sum with them is NaN.
// Kernels look for such sums and compute them again by ordinary arithmetic. Below 2^-113 low ends where TF32 does, at 2^-136: an error of
// 2^-137 at most.
#pragma once

#include "mma/ptx.cuh"

namespace attile::gpu::mma {

// The tensor core ignores the bits below TF32's, so high needs no mask.
__device__ __forceinline__ void tf32x3_parts(uint32_t x, uint32_t &high, uint32_t &low) {
    constexpr uint32_t kHalfUnit = 0x1000, kKept = 0xffffe000;
    high = x + kHalfUnit;
    low = __float_as_uint(__uint_as_float(x) - __uint_as_float(high & kKept));
}
template <int kCount>
__device__ __forceinline__ void tf32x3_parts(const uint32_t (&x)[kCount], uint32_t (&high)[kCount], uint32_t (&low)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) tf32x3_parts(x[i], high[i], low[i]);
}

// sums += a b, 16 rows by 8 columns by 8 of depth. sums as those of multiply(); a: rows lane / 4 and the one eight below, of depth
// lane % 4, then of the depth four further; b0 and b1 those depths of column lane / 4.
__device__ __forceinline__ void multiply_tf32(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// sums = a b
__device__ __forceinline__ void multiply_first_tf32(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
                 : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0f));
}

// The operands of one row tile and eight columns over kSteps steps of depth, split.
template <int kSteps>
struct Tf32x3Rows {
    uint32_t high[kSteps][4], low[kSteps][4];
};
template <int kSteps>
struct Tf32x3Columns {
    uint32_t high[kSteps][2], low[kSteps][2];
};

// sums[t] += a[t] b for kTiles row tiles, whose products are interleaved, so that none waits for the one before of its own tile.
template <int kTiles, int kSteps>
__device__ __forceinline__ void multiply_tf32x3(float *const (&sums)[kTiles], const Tf32x3Rows<kSteps> (&a)[kTiles],
                                                const Tf32x3Columns<kSteps> &b) {
    float part[kTiles][4];
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
            if (s == 0)
                multiply_first_tf32(part[t], a[t].low[s], b.high[s][0], b.high[s][1]);
            else
                multiply_tf32(part[t], a[t].low[s], b.high[s][0], b.high[s][1]);
        }
#pragma unroll
        for (int t = 0; t < kTiles; ++t) multiply_tf32(part[t], a[t].high[s], b.low[s][0], b.low[s][1]);
    }
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
#pragma unroll
        for (int t = 0; t < kTiles; ++t) multiply_tf32(part[t], a[t].high[s], b.high[s][0], b.high[s][1]);
    }
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[t][i] += part[t][i];
    }
}

// Is any of them infinite or NaN?
template <int kCount>
__device__ __forceinline__ bool has_no_numbers(const float (&x)[kCount]) {
    float zero = 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i) zero = __builtin_fmaf(x[i], 0.0f, zero);
    return zero != 0;
}
__device__ __forceinline__ bool is_number(float x) { return x - x == 0; }

}  // namespace attile::gpu::mma
