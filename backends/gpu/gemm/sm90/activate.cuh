// SPDX-License-Identifier: Apache-2.0
// Activations of results that are stored in 16 bits, by two instructions of the special function units each. Relative errors, beside the
// 2e-3 (bfloat16) and 2.4e-4 (float16) of the store's own rounding: gelu 6e-6 down to x = -13, where float32 ends, the others 6e-6.
// Infinities and NaN give what the formulas give. Record: docs/kernels/gemm-sm90.md.
#pragma once

#include "gemm/epilogue.h"

namespace attile::gpu::sm90 {

__device__ __forceinline__ float fast_reciprocal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float fast_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// The larger; NaN where either is.
__device__ __forceinline__ float larger_or_nan(float a, float b) {
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}

// x / (1 + 2^-t), by powers of at most 1: no overflow hides a small result.
__device__ __forceinline__ float fast_logistic(float x, float t) {
    const float e = fast_exp2(-fabsf(t));
    return x * (t < 0 ? e : 1.0f) * fast_reciprocal(1.0f + e);
}

// x Phi(x). Phi(-|x|) = t P(t) exp(-x^2 / 2), t = 1 / (1 + k |x|); P by least squares of the relative error.
__device__ __forceinline__ float fast_gelu(float x) {
    constexpr float kInner = 0.44f * 0.70710678118654752440f, kSquare = -0.72134752044448170368f;  // Of log2 e, the half.
    const float below = fminf(x, 20.0f), size = fabsf(below);  // The tail is 0 from there on; +infinity must not meet it.
    const float t = fast_reciprocal(fused_multiply_add(kInner, size, 1.0f));
    float tail = -0.073094786698f;
    tail = fused_multiply_add(tail, t, 0.175458517528f);
    tail = fused_multiply_add(tail, t, 0.020207221722f);
    tail = fused_multiply_add(tail, t, 0.131882275584f);
    tail = fused_multiply_add(tail, t, 0.121261454824f);
    tail = fused_multiply_add(tail, t, 0.124282751646f);
    tail *= t * fast_exp2(kSquare * size * size);
    return fused_multiply_add(-size, tail, larger_or_nan(x, 0.0f));
}

// One of a kind that is known when compiling.
template <int32_t kActivation>
__device__ __forceinline__ float fast_activate(float x) {
    constexpr float kLog2E = 1.4426950408889634f;
    if constexpr (kActivation == ATTILE_ACTIVATION_RELU) {
        return larger_or_nan(x, 0.0f);
    } else if constexpr (kActivation == ATTILE_ACTIVATION_GELU) {
        return fast_gelu(x);
    } else if constexpr (kActivation == ATTILE_ACTIVATION_GELU_TANH) {
        constexpr float kFirst = 2 * 0.79788456080286535588f * kLog2E;
        return fast_logistic(x, x * fused_multiply_add(0.044715f * kFirst, x * x, kFirst));
    } else {
        static_assert(kActivation == ATTILE_ACTIVATION_SILU, "an activation");
        return fast_logistic(x, x * kLog2E);
    }
}

// Calls step(std::integral_constant<int32_t, activation>) where there is one.
template <class Step>
__device__ __forceinline__ void with_activation(int32_t activation, const Step &step) {
    if (activation == ATTILE_ACTIVATION_RELU) step(std::integral_constant<int32_t, ATTILE_ACTIVATION_RELU>());
    if (activation == ATTILE_ACTIVATION_GELU) step(std::integral_constant<int32_t, ATTILE_ACTIVATION_GELU>());
    if (activation == ATTILE_ACTIVATION_GELU_TANH) step(std::integral_constant<int32_t, ATTILE_ACTIVATION_GELU_TANH>());
    if (activation == ATTILE_ACTIVATION_SILU) step(std::integral_constant<int32_t, ATTILE_ACTIVATION_SILU>());
}

// What GemmEpilogue calls: the same bits as the fused way for D of 16 bits, full float32 otherwise.
struct FastActivation {
    static __device__ __forceinline__ float apply(float x, int32_t activation, int32_t dtype) {
        if (dtype == ATTILE_F32) return gemm_activate(x, activation);
        with_activation(activation, [&](auto kind) { x = fast_activate<decltype(kind)::value>(x); });
        return x;
    }
};

}  // namespace attile::gpu::sm90
