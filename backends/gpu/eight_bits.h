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

// sum + the products of four pairs of int8, each four in a word.
ATTILE_LANE_FN int32_t dot_of_four(uint32_t a, uint32_t b, int32_t sum) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 610
    return __dp4a(static_cast<int32_t>(a), static_cast<int32_t>(b), sum);
#elif defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx1011__) || defined(__gfx1012__) || \
    defined(__gfx1030__) || defined(__gfx1031__) || defined(__gfx1032__) || defined(__gfx1034__)
    return __builtin_amdgcn_sdot4(static_cast<int32_t>(a), static_cast<int32_t>(b), sum, false);
#elif defined(__gfx1100__) || defined(__gfx1101__) || defined(__gfx1102__)
    return __builtin_amdgcn_sudot4(true, static_cast<int32_t>(a), true, static_cast<int32_t>(b), sum, false);
#else
#pragma unroll
    for (int i = 0; i < 32; i += 8) sum += static_cast<int8_t>(a >> i) * static_cast<int8_t>(b >> i);
    return sum;
#endif
}

}  // namespace attile::gpu
