// SPDX-License-Identifier: Apache-2.0
// Numbers of 8 and 4 bits as pairs of f16 or bfloat16 in a register, as mma.sync multiplies them. All are exact.
#pragma once

#include <cstdint>
#include <type_traits>

#include "eight_bits.h"
#include "numeric.h"

namespace attile::gpu::mma {

// x times y plus z, pairs.
template <class Element>
__device__ __forceinline__ uint32_t multiply_add_pairs(uint32_t x, uint32_t y, uint32_t z) {
    uint32_t sum;
    if constexpr (std::is_same_v<Element, F16>)
        asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(x), "r"(y), "r"(z));
    else
        asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(x), "r"(y), "r"(z));
    return sum;
}

// Selectors of __byte_perm that have each of two numbers in both bytes of its half: of a word's first two, and of its last two.
inline constexpr uint32_t kLowerTwo = 0x1100, kUpperTwo = 0x3322;

// What numbers are multiplied by in the forms below: f16's e4m3 and bfloat16's int8 are left where no further instruction is needed.
template <class Number, class Element>
inline constexpr float kWidenedUnit = std::is_same_v<Number, I8> && !std::is_same_v<Element, F16>    ? 0x1p-6f
                                      : std::is_same_v<Number, E4M3> && std::is_same_v<Element, F16> ? 0x1p-8f
                                                                                                     : 1.0f;

// Constants in registers: an instruction takes one as it is, and these have two.
template <class Number, class Element>
struct Widener {
    static constexpr bool kF16 = std::is_same_v<Element, F16>, kI8 = std::is_same_v<Number, I8>;
    static_assert(kI8 || std::is_same_v<Number, E4M3>, "a type that is written out");
    uint32_t lower, sign;
    __device__ __forceinline__ Widener() : lower(kI8 ? 0x00ff00ffu : kF16 ? 0x3f803f80u : 0x07f007f0u), sign(0x80008000u) {
        asm volatile("" : "+r"(lower), "+r"(sign));
    }
    // Two numbers, times kWidenedUnit: bytes of `word` and `other` by a selector of __byte_perm, which has each number in both bytes of its
    // half. NaN of e4m3 comes out as a number: nan_bytes() tells.
    __device__ __forceinline__ uint32_t operator()(uint32_t word, uint32_t other, uint32_t selector) const {
        const uint32_t halves = __byte_perm(word, other, selector);
        if constexpr (kI8 && kF16) {
            // From zero, 0 to 255: as the lowest bits of 1024.
            return multiply_add_pairs<F16>((halves & lower) ^ 0x64806480u, 0x3c003c00u, 0xe480e480u);
        } else if constexpr (kI8) {
            // As the lowest bits of a bfloat16 so many times 2^-133, of subnormal numbers and the first normal ones. Times 2^127, less 128
            // of those.
            return multiply_add_pairs<BF16>((halves & lower) ^ 0x00800080u, 0x7f007f00u, 0xc000c000u);
        } else if constexpr (kF16) {
            // The exponent's bias is f16's less 8; subnormal numbers are subnormal there, too.
            return (halves >> 1 & lower) | (halves & sign);
        } else {
            // The exponent's bias is bfloat16's less 120.
            return multiply_add_pairs<BF16>((halves >> 4 & lower) | (halves & sign), 0x7b807b80u, sign);
        }
    }
};
// Does one of four numbers of e4m3 have no value?
__device__ __forceinline__ uint32_t nan_bytes(uint32_t word) { return ((word & 0x7f7f7f7fu) + 0x01010101u) & 0x80808080u; }

// Numbers of 4 bits, as the lowest bits of 128 or 1024, less that.
template <class Element>
struct NibbleWidener {
    static constexpr bool kF16 = std::is_same_v<Element, F16>;
    uint32_t place, offset, lower = 0x000f000fu, one = kF16 ? 0x3c003c00u : 0x3f803f80u;  // In registers, as above.
    // has_sign: two's complement. Otherwise numbers are 0 to 15, or, if centred, 8 less.
    __device__ __forceinline__ NibbleWidener(bool has_sign, bool is_centred) {
        const uint32_t high = kF16 ? 0x64006400u : 0x43004300u;
        place = has_sign ? high | 0x00080008u : high;
        offset = (has_sign || is_centred ? high | 0x00080008u : high) | 0x80008000u;
        asm volatile("" : "+r"(place), "+r"(offset), "+r"(lower), "+r"(one));
    }
    // Numbers i and i + 4 of a word's eight.
    __device__ __forceinline__ uint32_t operator()(uint32_t word, int i) const {
        uint32_t placed;  // (shifted & lower) ^ place, which the compiler makes two instructions of.
        asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(placed) : "r"(word >> 4 * i), "r"(lower), "r"(place));
        return multiply_add_pairs<Element>(placed, one, offset);
    }
};

}  // namespace attile::gpu::mma
