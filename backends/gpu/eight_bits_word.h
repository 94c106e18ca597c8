// SPDX-License-Identifier: Apache-2.0
// Four numbers of 8 bits that lie in a word, or of 4 bits in its lower half, as floats: in fewer instructions than one by one, and none of
// them waits for a table.
#pragma once

#include "narrow.h"

namespace attile::gpu {

// Compilers that know an instruction for pairs of e4m3: of CUDA 12.1, for devices since 8.9.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890 && \
    (__CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 1))
#define ATTILE_GPU_WIDENS_E4M3
#endif

// widen_word() leaves numbers divided by this power of two: what they are multiplied with makes up for it, once and not for each.
ATTILE_LANE_FN float word_unit(I8) { return 1; }
ATTILE_LANE_FN float word_unit(E5M2) { return 1; }
ATTILE_LANE_FN float word_unit(I4) { return 1; }
ATTILE_LANE_FN float word_unit(E4M3) {
#if defined(ATTILE_GPU_WIDENS_E4M3)
    return 1;
#else
    return 256;
#endif
}

// Two float16 of a word.
ATTILE_LANE_FN void widen_halves(uint32_t halves, float &low, float &high) {
    low = to_compute(F16{static_cast<uint16_t>(halves)});
    high = to_compute(F16{static_cast<uint16_t>(halves >> 16)});
}

// The first number is in the lowest byte.
ATTILE_LANE_FN void widen_word(I8, uint32_t word, float (&to)[4]) {
    const uint32_t from_zero = word ^ 0x80808080u;  // 0 to 255
#pragma unroll
    for (int e = 0; e < 4; ++e) {
#if defined(__CUDA_ARCH__)
        // As the lowest bits of 2^23: a permutation and a sum, both at the full rate, which conversions lack.
        to[e] = __uint_as_float(__byte_perm(from_zero, 0x4b000000u, 0x7440u | static_cast<uint32_t>(e))) - (0x1p23f + 128);
#else
        to[e] = static_cast<float>(from_zero >> 8 * e & 0xffu) - 128;
#endif
    }
}
ATTILE_LANE_FN void widen_word(I4, uint32_t word, float (&to)[4]) {
    const uint32_t from_zero = word ^ 0x8888u;  // 0 to 15, as the lowest bits of 2^23
#pragma unroll
    for (int e = 0; e < 4; ++e) to[e] = __uint_as_float((from_zero >> 4 * e & 15u) | 0x4b000000u) - (0x1p23f + 8);
}
ATTILE_LANE_FN void widen_word(E5M2, uint32_t word, float (&to)[4]) {
    widen_halves(word << 8 & 0xff00ff00u, to[0], to[2]);
    widen_halves(word & 0xff00ff00u, to[1], to[3]);
}
ATTILE_LANE_FN void widen_word(E4M3, uint32_t word, float (&to)[4]) {
#if defined(ATTILE_GPU_WIDENS_E4M3)
    uint32_t halves[2];
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves[0]) : "h"(static_cast<uint16_t>(word)));
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves[1]) : "h"(static_cast<uint16_t>(word >> 16)));
    widen_halves(halves[0], to[0], to[1]);
    widen_halves(halves[1], to[2], to[3]);
#else
    // A float16 has one bit of exponent more, whose bias is 8 larger; subnormal numbers are so there, too. Of NaN that bit is 1.
    const uint32_t is_nan = ((word & 0x7f7f7f7fu) + 0x01010101u) & 0x80808080u;
    uint32_t even = (word << 7 & 0x3f803f80u) | (word << 8 & 0x80008000u), odd = (word >> 1 & 0x3f803f80u) | (word & 0x80008000u);
    if (is_nan != 0) {
        even |= is_nan << 7 & 0x40004000u;
        odd |= is_nan >> 1 & 0x40004000u;
    }
    widen_halves(even, to[0], to[2]);
    widen_halves(odd, to[1], to[3]);
#endif
}

}  // namespace attile::gpu
