// SPDX-License-Identifier: Apache-2.0
// Words of numbers of 8 and 4 bits as pairs of float16, for decode_narrow.cuh.
#pragma once

#include "mma/ptx_words.cuh"
#include "mma/widen.cuh"
#include "narrow.h"

namespace attile::gpu::sm80 {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
inline constexpr bool kConvertsE4m3 = true;  // By an instruction, which keeps NaN.
#else
inline constexpr bool kConvertsE4m3 = false;
#endif

// A word's numbers as pairs of float16, times kUnit. Pair p of keys has columns of_keys(p, 0) and of_keys(p, 1) of the word; of values,
// where a word has half as many columns of two keys, column p of both. kBias: numbers come with so much added, in every other pair of
// columns times kOddFactor; the exact forms have none, where what they are multiplied with is infinite.
template <class T>
struct NarrowWords {
    static constexpr float kBias = 0, kOddFactor = 1;
    static constexpr float kUnit = kConvertsE4m3 ? 1.0f : mma::kWidenedUnit<T, F16>;
    uint32_t lower = 0x00ff00ffu, place = 0x64806480u, one = 0x3c003c00u, offset = 0xe480e480u;  // In registers (mma/widen.cuh).
    __device__ __forceinline__ NarrowWords() { asm volatile("" : "+r"(lower), "+r"(place), "+r"(one), "+r"(offset)); }
    static constexpr int of_keys(int p, int half) { return p + 2 * half; }
    __device__ __forceinline__ void keys(uint32_t word, uint32_t (&pairs)[2]) const { values(word, pairs); }
    __device__ __forceinline__ void values(uint32_t word, uint32_t (&pairs)[2]) const {
        // From zero, 0 to 255: as the lowest bits of 1024.
        pairs[0] = mma::multiply_add_pairs<F16>(mma::masked_changed(word, lower, place), one, offset);
        pairs[1] = mma::multiply_add_pairs<F16>(mma::masked_changed(word >> 8, lower, place), one, offset);
    }
    __device__ __forceinline__ void exact_keys(uint32_t word, uint32_t (&pairs)[2]) const { values(word, pairs); }
    __device__ __forceinline__ void exact_values(uint32_t word, uint32_t (&pairs)[2]) const { values(word, pairs); }
};
template <>
struct NarrowWords<E4M3> {
    static constexpr float kBias = 0, kOddFactor = 1;
    static constexpr float kUnit = kConvertsE4m3 ? 1.0f : mma::kWidenedUnit<E4M3, F16>;
    const mma::Widener<E4M3, F16> widen;
    static constexpr int of_keys(int p, int half) { return 2 * p + half; }
    __device__ __forceinline__ void keys(uint32_t word, uint32_t (&pairs)[2]) const {
        if constexpr (kConvertsE4m3) {
            convert(word, pairs);
        } else {
            pairs[0] = widen(word, word, mma::kLowerTwo);
            pairs[1] = widen(word, word, mma::kUpperTwo);
        }
    }
    __device__ __forceinline__ void values(uint32_t word, uint32_t (&pairs)[2]) const { keys(__byte_perm(word, 0, 0x3120), pairs); }
    __device__ __forceinline__ void exact_keys(uint32_t word, uint32_t (&pairs)[2]) const { keys(word, pairs); }
    __device__ __forceinline__ void exact_values(uint32_t word, uint32_t (&pairs)[2]) const { values(word, pairs); }

  private:
    static __device__ __forceinline__ void convert(uint32_t word, uint32_t (&pairs)[2]) {
#if __CUDA_ARCH__ >= 890
        asm("{.reg .b16 low, high; mov.b32 {low, high}, %2; cvt.rn.f16x2.e4m3x2 %0, low; cvt.rn.f16x2.e4m3x2 %1, high;}"
            : "=r"(pairs[0]), "=r"(pairs[1])
            : "r"(word));
#endif
    }
};
// A nibble's place among the lowest bits of a float16 is that of a subnormal number, which mma.sync takes as it is: to mask is to widen.
template <>
struct NarrowWords<I4> {
    static constexpr float kUnit = 0x1p-24f, kBias = 8, kOddFactor = 16;
    uint32_t even = 0x000f000fu, odd = 0x00f000f0u, even_sign = 0x00080008u, odd_sign = 0x00800080u;
    __device__ __forceinline__ NarrowWords() { asm volatile("" : "+r"(even), "+r"(odd), "+r"(even_sign), "+r"(odd_sign)); }
    static constexpr int of_keys(int p, int half) { return p + 4 * half; }
    __device__ __forceinline__ void keys(uint32_t word, uint32_t (&pairs)[4]) const { values(word, pairs); }
    __device__ __forceinline__ void values(uint32_t word, uint32_t (&pairs)[4]) const {
        const uint32_t upper = word >> 8;
        pairs[0] = mma::masked_changed(word, even, even_sign);
        pairs[1] = mma::masked_changed(word, odd, odd_sign);
        pairs[2] = mma::masked_changed(upper, even, even_sign);
        pairs[3] = mma::masked_changed(upper, odd, odd_sign);
    }
    __device__ __forceinline__ void exact_keys(uint32_t word, uint32_t (&pairs)[4]) const { exact_values(word, pairs); }
    // As the lowest bits of 1024, less that and the bias, and back to the unit.
    __device__ __forceinline__ void exact_values(uint32_t word, uint32_t (&pairs)[4]) const {
        values(word, pairs);
#pragma unroll
        for (int p = 0; p < 4; ++p) {
            const uint32_t number =
                mma::multiply_add_pairs<F16>(pairs[p] | 0x64006400u, 0x3c003c00u, p % 2 == 0 ? 0xe408e408u : 0xe480e480u);
            pairs[p] = mma::multiply_add_pairs<F16>(number, 0x00010001u, 0x80008000u);
        }
    }
};

}  // namespace attile::gpu::sm80
