// SPDX-License-Identifier: Apache-2.0
// Numbers: float16 and bfloat16 as storage, division by a Divider, and the few functions that a vendor offers faster than the C library's.
// Conversions use integer arithmetic or the one conversion instruction that every device has, so bfloat16 needs no hardware support.
#pragma once

#include "divider.h"
#include "lane.h"

#if defined(ATTILE_GPU_HIP)
extern "C" __device__ float __ocml_native_exp2_f32(float);  // The bare instruction; HIP's headers declare its neighbours only.
#endif

namespace attile::gpu {

ATTILE_LANE_FN uint32_t quotient(uint32_t dividend, const Divider &by) {
    return static_cast<uint32_t>((static_cast<uint64_t>(dividend) * by.multiplier >> 32) + dividend) >> by.shift;
}
ATTILE_LANE_FN uint32_t remainder(uint32_t dividend, const Divider &by) { return dividend - quotient(dividend, by) * by.divisor; }

struct F16 {
    uint16_t bits;
};
struct BF16 {
    uint16_t bits;
};

// What sums of T are kept in.
template <class T>
struct ComputeOf {
    using type = float;
};
template <>
struct ComputeOf<double> {
    using type = double;
};
template <class T>
using Compute = typename ComputeOf<T>::type;

template <class T>
ATTILE_LANE_FN T lowest() {  // -inf
    return static_cast<T>(-__builtin_huge_val());
}

// Widening is exact.
ATTILE_LANE_FN float to_compute(float x) { return x; }
ATTILE_LANE_FN double to_compute(double x) { return x; }
ATTILE_LANE_FN float to_compute(BF16 x) { return __uint_as_float(static_cast<uint32_t>(x.bits) << 16); }
ATTILE_LANE_FN float to_compute(F16 x) {
#if defined(ATTILE_GPU_HIP)
    return static_cast<float>(__builtin_bit_cast(_Float16, x.bits));
#elif defined(ATTILE_GPU_EMULATED)
    return emulation::f16_to_float(x.bits);
#else
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
    return wide;
#endif
}

// Narrowing rounds to nearest, ties to even; NaN stays NaN.
template <class T>
ATTILE_LANE_FN T from_compute(Compute<T> x);
template <>
ATTILE_LANE_FN float from_compute<float>(float x) {
    return x;
}
template <>
ATTILE_LANE_FN double from_compute<double>(double x) {
    return x;
}
template <>
ATTILE_LANE_FN F16 from_compute<F16>(float x) {
#if defined(ATTILE_GPU_HIP)
    return F16{__builtin_bit_cast(uint16_t, static_cast<_Float16>(x))};
#elif defined(ATTILE_GPU_EMULATED)
    return F16{emulation::f16_from_float(x)};
#else
    F16 narrow;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(x));
    return narrow;
#endif
}
template <>
ATTILE_LANE_FN BF16 from_compute<BF16>(float x) {
    const uint32_t bits = __float_as_uint(x);
    if (x != x) return BF16{static_cast<uint16_t>(bits >> 16 | 0x40u)};  // Rounding could carry a NaN's payload into infinity.
    return BF16{static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}

// 2^x within 2 ulp; 0 for x below -126 (results that would be denormal), and for -inf. NaN stays NaN.
ATTILE_LANE_FN float exp2_fast(float x) {
#if defined(ATTILE_GPU_HIP)
    return __ocml_native_exp2_f32(x);
#elif defined(ATTILE_GPU_EMULATED)
    return x < -126 ? 0.0f : exp2f(x);
#else
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}
ATTILE_LANE_FN double exp2_fast(double x) { return exp2(x); }

// exp(x - reference) for x <= reference, in float to about 2 ulp of the difference's own rounding; NaN where either is NaN or both are
// infinite.
// Results that are denormal are not lost.
ATTILE_LANE_FN float exp_difference(float x, float reference) {
    const float scaled = (x - reference) * 1.44269504f;
    const bool is_tiny = scaled < -126;
    const float root = exp2_fast(is_tiny ? scaled * 0.5f : scaled);
    return is_tiny ? root * root : root;
}
ATTILE_LANE_FN double exp_difference(double x, double reference) { return exp(x - reference); }

// 1/x within 1 ulp; 0 for infinity, infinity for 0.
ATTILE_LANE_FN float reciprocal_fast(float x) {
#if defined(ATTILE_GPU_HIP)
    return __builtin_amdgcn_rcpf(x);
#elif defined(ATTILE_GPU_EMULATED)
    return 1.0f / x;
#else
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}
ATTILE_LANE_FN double reciprocal_fast(double x) { return 1.0 / x; }

// tanh within 4 ulp, without a branch; NaN stays NaN. Near zero by a polynomial (least largest error below 0.6, 3e-9), where
// 1 - 2 / (e^2x + 1) would cancel.
ATTILE_LANE_FN float tanh_fast(float x) {
    const float square = x * x, magnitude = fabsf(x);
    float odd = __builtin_fmaf(square, -0.00589516526f, 0.0207959786f);
    odd = __builtin_fmaf(square, odd, -0.0537838340f);
    odd = __builtin_fmaf(square, odd, 0.133319244f);
    odd = __builtin_fmaf(square, odd, -0.333332986f);
    const float near = __builtin_fmaf(square * odd, x, x);
    const float far = __builtin_fmaf(-2.0f, reciprocal_fast(exp2_fast(magnitude * 2.88539008f) + 1.0f), 1.0f);
    return magnitude < 0.6f ? near : copysignf(far, x);
}

ATTILE_LANE_FN float fused_multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
ATTILE_LANE_FN double fused_multiply_add(double a, double b, double c) { return __builtin_fma(a, b, c); }

// A product that is rounded by itself: no compiler makes one multiply-add of it and the sum that it goes into.
ATTILE_LANE_FN float rounded_product(float a, float b) {
#if defined(ATTILE_GPU_HIP)
    float product = a * b;
    asm("" : "+v"(product));
    return product;
#elif defined(ATTILE_GPU_EMULATED)
    return a * b;
#else
    return __fmul_rn(a, b);
#endif
}
// a / b, rounded to nearest, subnormal numbers as they are.
ATTILE_LANE_FN float rounded_quotient(float a, float b) {
#if defined(ATTILE_GPU_HIP) || defined(ATTILE_GPU_EMULATED)
    return a / b;
#else
    return __fdiv_rn(a, b);
#endif
}

// Larger and smaller; if either is NaN, the result is NaN, unlike fmax and fmin.
template <class T>
ATTILE_LANE_FN T max_nan(T a, T b) {
    return a > b || a != a ? a : b;
}
template <class T>
ATTILE_LANE_FN T min_nan(T a, T b) {
    return a < b || a != a ? a : b;
}

inline constexpr double kLog2E = 1.4426950408889634074;
// log2(e) in two floats: the first alone is a fifth of a unit in the last place too small, the same way for every number.
inline constexpr float kLog2EHigh = static_cast<float>(kLog2E);
inline constexpr float kLog2ELow = static_cast<float>(kLog2E - static_cast<double>(kLog2EHigh));
// x log2(e), rounded once; plus another number: twice.
ATTILE_LANE_FN float to_log2(float x) { return __builtin_fmaf(x, kLog2EHigh, x * kLog2ELow); }
ATTILE_LANE_FN float add_log2(float sum, float x) { return __builtin_fmaf(x, kLog2EHigh, __builtin_fmaf(x, kLog2ELow, sum)); }
// x + log2(y) for y >= 0, with the rounding of the sum alone: a large whole part of the logarithm joins x first.
ATTILE_LANE_FN float add_log2_of(float x, float y) {
    const uint32_t bits = __float_as_uint(y), exponent = bits >> 23;
    const bool has_part = exponent != 0 && exponent < 255;
    const float part = has_part ? static_cast<float>(static_cast<int>(exponent) - 127) : 0.0f;
    return (x + part) + log2f(has_part ? __uint_as_float((bits & 0x7fffffu) | 127u << 23) : y);
}
inline constexpr double kLn2 = 0.69314718055994530942;

// Biases, sinks and log-sum-exps may be as large as a float is. Times log2(e) they would be infinite, which hides a key: scores beyond
// kFarScore are counted in another scale, which keeps their order. Nothing of a product shows beside them. Kernels that multiply scores by
// a `unit` to have them in units of log2 do so with these, too.
inline constexpr float kFarScore = 0x1p120f, kFarBase = 0x1p121f, kFarShare = 0x1p-6f;
ATTILE_LANE_FN bool is_far(float score) { return !(fabsf(score) <= kFarScore); }  // Infinity and NaN are, too.
ATTILE_LANE_FN float far_score(float x) { return __builtin_fmaf(x, kFarShare, copysignf(kFarBase, x)); }
// x in units of log2.
ATTILE_LANE_FN float to_score(float x, float unit = 1.0f) {
    const float score = to_log2(x);
    return fabsf(score) <= kFarScore * unit ? score : far_score(x) * unit;
}
// A score in units of log2 plus a bias, which hides it if it is -inf, whatever it is.
ATTILE_LANE_FN float add_bias_log2(float score, float bias) {
    if (!is_far(bias * kLog2EHigh)) return add_log2(score, bias);
    return bias == -INFINITY ? -INFINITY : score + far_score(bias);
}
// Back from units of log2.
ATTILE_LANE_FN float from_score(float x, float unit = 1.0f) {
    constexpr float kFarFrom = 1.5f * kFarScore, kLargest = 0x1.fffffep127f;
    const float size = fabsf(x) / unit;
    if (!(size > kFarFrom) || size == INFINITY) return x * static_cast<float>(kLn2);
    return copysignf(fminf((size - kFarBase) * (1 / kFarShare), kLargest), x);
}

}  // namespace attile::gpu
