// SPDX-License-Identifier: Apache-2.0
// Attention's two products of 8-bit floats (e4m3) on a warpgroup, 64 rows by kColumns columns by 32 of depth, sums in float32:
//   score_product_bytes   S += Q K^T  both in shared memory, contiguous along the depth
//   value_product_bytes   O += P V    P in registers, V transposed in shared memory, contiguous along the keys
// Registers hold sums as attention/sm90/product.cuh says. Of P's fragment for 32 keys a thread has eight of a row, which must be those that
// it has as sums: so keys of V^T stand in another order, which key_of_place() gives. The tensor core cuts products and sums off at 2^-13 of
// the largest among them.
#pragma once

#include <cstdint>

#include "mma/ptx.cuh"
#include "sm90/wgmma.cuh"

namespace attile::gpu::sm90 {

inline constexpr int kOrderedKeys = 32;
// Which of 32 keys stands in a place of V^T.
__host__ __device__ constexpr int key_of_place(int place) {
    const int half = place / 16, lane = place % 16 / 4, i = place % 4;
    return 16 * half + 8 * (i / 2) + 2 * lane + i % 2;
}

// Four probabilities of a row as e4m3, the first in the lowest byte.
__device__ __forceinline__ uint32_t narrow_four(float a, float b, float c, float d) {
    uint32_t four;
    asm("{ .reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f32 low, %2, %1; cvt.rn.satfinite.e4m3x2.f32 high, %4, %3; mov.b32 %0, {low, "
        "high}; }"
        : "=r"(four)
        : "f"(a), "f"(b), "f"(c), "f"(d));
    return four;
}

// A thread's probabilities as fragments of P: of e4m3, else of Element.
template <class Element, bool kBytes, int kScores>
__device__ __forceinline__ void narrow_probabilities(const float (&s)[kScores], uint32_t *p) {
    if constexpr (kBytes) {
#pragma unroll
        for (int i = 0; i < kScores / 4; ++i) {
            const float *const four = s + i / 2 * 8 + i % 2 * 2;
            p[i] = narrow_four(four[0], four[1], four[4], four[5]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < kScores / 2; ++i) p[i] = mma::narrow_pair<Element>(s[2 * i], s[2 * i + 1]);
    }
}

// sums += A B by one warp, 16 rows by 8 columns by 32 of depth: mma::multiply()'s, with twice the numbers a register.
__device__ __forceinline__ void multiply_bytes(float *sums, const uint32_t *a, uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// clang-format off
// a, b, ... are the numbers of the operands after the sums.
#define ATTILE_SCORES(columns, count, a, b, keep)                                                                          \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %" keep ", 0; wgmma.mma_async.sync.aligned.m64n" columns "k32.f32.e4m3.e4m3" \
                 " {" ATTILE_WGMMA_SUMS_##count "}, %" a ", %" b ", p, 1, 1; }"                                                  \
                 : ATTILE_WGMMA_BIND_##count(0) : "l"(q), "l"(k), "r"(keeps))
#define ATTILE_VALUES(columns, count, a0, a1, a2, a3, b)                                                                   \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" columns "k32.f32.e4m3.e4m3"                                             \
                 " {" ATTILE_WGMMA_SUMS_##count "}, {%" a0 ", %" a1 ", %" a2 ", %" a3 "}, %" b ", 1, 1, 1;"                      \
                 : ATTILE_WGMMA_BIND_##count(0) : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(v))

// keeps 0: overwrites the sums.
template <int kColumns>
__device__ __forceinline__ void score_product_bytes(float (&sums)[kColumns / 2], uint64_t q, uint64_t k, int keeps) {
    if constexpr (kColumns == 128) ATTILE_SCORES("128", 64, "64", "65", "66");
    else static_assert(kColumns == 128, "a width that is written out");
}
template <int kColumns>
__device__ __forceinline__ void value_product_bytes(float (&sums)[kColumns / 2], const uint32_t *p, uint64_t v) {
    if constexpr (kColumns == 64) ATTILE_VALUES("64", 32, "32", "33", "34", "35", "36");
    else if constexpr (kColumns == 128) ATTILE_VALUES("128", 64, "64", "65", "66", "67", "68");
    else if constexpr (kColumns == 256) ATTILE_VALUES("256", 128, "128", "129", "130", "131", "132");
    else static_assert(kColumns == 64, "a width that is written out");
}
// clang-format on
#undef ATTILE_VALUES
#undef ATTILE_SCORES

}  // namespace attile::gpu::sm90
