// SPDX-License-Identifier: Apache-2.0
// Numbers of 8 bits as storage, and the sum of four products of them. All are exact in float, and in float16 and bfloat16.
#pragma once

#include "numeric.h"

namespace attile::gpu {

struct I8 {
    int8_t value;
};
struct E4M3 {  // The format without infinities: 0x7f and 0xff are NaN.
    uint8_t bits;
};
struct E5M2 {  // The upper half of a float16.
    uint8_t bits;
};

ATTILE_LANE_FN float to_compute(I8 x) { return static_cast<float>(x.value); }
ATTILE_LANE_FN float to_compute(E4M3 x) {
    // The exponent is as float's but for its bias, also of subnormal numbers: they are subnormal floats here, until they are multiplied.
    const uint32_t magnitude = x.bits & 0x7fu, sign = static_cast<uint32_t>(x.bits & 0x80u) << 24;
    const float size = __uint_as_float(magnitude << 20) * 0x1p120f;
    return __uint_as_float(sign | (magnitude == 0x7fu ? 0x7fc00000u : __float_as_uint(size)));
}
ATTILE_LANE_FN float to_compute(E5M2 x) { return to_compute(F16{static_cast<uint16_t>(x.bits << 8)}); }

// Has the device that code is made for an instruction for dot_of_four()? True of the host.
#if defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx1011__) || defined(__gfx1012__) || \
    defined(__gfx1030__) || defined(__gfx1031__) || defined(__gfx1032__) || defined(__gfx1034__)
#define ATTILE_GPU_HAS_SDOT4
#endif
#if defined(__CUDA_ARCH__)
inline constexpr bool kDotsFour = __CUDA_ARCH__ >= 610;
#elif defined(__AMDGCN__) && !defined(ATTILE_GPU_HAS_SDOT4) && !defined(__gfx1100__) && !defined(__gfx1101__) && !defined(__gfx1102__)
inline constexpr bool kDotsFour = false;
#else
inline constexpr bool kDotsFour = true;
#endif

// sum + the products of four pairs of int8, each four in a word.
ATTILE_LANE_FN int32_t dot_of_four(uint32_t a, uint32_t b, int32_t sum) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 610
    return __dp4a(static_cast<int32_t>(a), static_cast<int32_t>(b), sum);
#elif defined(__gfx1100__) || defined(__gfx1101__) || defined(__gfx1102__)
    return __builtin_amdgcn_sudot4(true, static_cast<int32_t>(a), true, static_cast<int32_t>(b), sum, false);
#elif defined(ATTILE_GPU_HAS_SDOT4)
    return __builtin_amdgcn_sdot4(static_cast<int32_t>(a), static_cast<int32_t>(b), sum, false);
#else
#pragma unroll
    for (int i = 0; i < 32; i += 8) sum += static_cast<int8_t>(a >> i) * static_cast<int8_t>(b >> i);
    return sum;
#endif
}

// The same of an unsigned a: 0 to 255.
ATTILE_LANE_FN int32_t dot_of_four_unsigned(uint32_t a, uint32_t b, int32_t sum) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 610
    int32_t dot;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(dot) : "r"(a), "r"(b), "r"(sum));
    return dot;
#elif defined(__gfx1100__) || defined(__gfx1101__) || defined(__gfx1102__)
    return __builtin_amdgcn_sudot4(false, static_cast<int32_t>(a), true, static_cast<int32_t>(b), sum, false);
#else
    // a - 128 is signed, and 128 times the sum of b depends on b alone.
    return dot_of_four(a ^ 0x80808080u, b, sum) + dot_of_four(0x01010101u, b, 0) * 128;
#endif
}

// Four bytes of two words, by a selector as of PRMT: the lowest digit of kSelector names the lowest byte, 0 to 3 of a, 4 to 7 of b.
template <uint32_t kSelector>
ATTILE_LANE_FN uint32_t pick_bytes(uint32_t a, uint32_t b) {
#if defined(ATTILE_GPU_HIP)
    constexpr uint32_t kBytes = (kSelector & 7) | (kSelector >> 4 & 7) << 8 | (kSelector >> 8 & 7) << 16 | (kSelector >> 12 & 7) << 24;
    return __builtin_amdgcn_perm(b, a, kBytes);
#elif defined(ATTILE_GPU_EMULATED)
    const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
    uint32_t picked = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) picked |= static_cast<uint32_t>(both >> (kSelector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
    return picked;
#else
    return __byte_perm(a, b, kSelector);
#endif
}

// Four rows of four bytes as four columns: byte i of y[j] is byte j of x[i].
ATTILE_LANE_FN void transpose_bytes(const uint32_t (&x)[4], uint32_t (&y)[4]) {
    const uint32_t low01 = pick_bytes<0x5140>(x[0], x[1]), high01 = pick_bytes<0x7362>(x[0], x[1]);
    const uint32_t low23 = pick_bytes<0x5140>(x[2], x[3]), high23 = pick_bytes<0x7362>(x[2], x[3]);
    y[0] = pick_bytes<0x5410>(low01, low23);
    y[1] = pick_bytes<0x7632>(low01, low23);
    y[2] = pick_bytes<0x5410>(high01, high23);
    y[3] = pick_bytes<0x7632>(high01, high23);
}

}  // namespace attile::gpu
