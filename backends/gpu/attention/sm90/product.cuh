// SPDX-License-Identifier: Apache-2.0
// Attention's two products on a warpgroup, 64 rows by kColumns columns by 16 of depth, sums in float32:
//   score_product   S += Q K^T  both in shared memory, contiguous along the depth
//   value_product   O += P V    P in registers, V in shared memory, contiguous along the columns
//   distance_product  S += A D^T  A in registers, D in shared memory, contiguous along the depth; for 128 columns
// Thread t of warp w holds rows 16 w + t / 4 and that + 8: sums[4 j] and the next are columns 8 j + 2 (t % 4) and the next of the first
// row, sums[4 j + 2] and the next those of the second. Two such 8-column pieces, narrowed, are P's fragment for 16 of depth.
#pragma once

#include <cstdint>
#include <type_traits>

#include "numeric.h"
#include "sm90/wgmma.cuh"

namespace attile::gpu::sm90 {

// clang-format off
// a, b, ... are the numbers of the operands after the sums.
#define ATTILE_SCORES(columns, count, types, a, b, keep)                                                                    \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %" keep ", 0; wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." types  \
                 " {" ATTILE_WGMMA_SUMS_##count "}, %" a ", %" b ", p, 1, 1, 0, 0; }"                                             \
                 : ATTILE_WGMMA_BIND_##count(0) : "l"(q), "l"(k), "r"(keeps))
#define ATTILE_VALUES(columns, count, types, a0, a1, a2, a3, b)                                                             \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." types                                               \
                 " {" ATTILE_WGMMA_SUMS_##count "}, {%" a0 ", %" a1 ", %" a2 ", %" a3 "}, %" b ", 1, 1, 1, 1;"                    \
                 : ATTILE_WGMMA_BIND_##count(0) : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(v))
#define ATTILE_DISTANCES(types)                                                                                                \
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." types                                                       \
                 " {" ATTILE_WGMMA_SUMS_64 "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 0;"                                          \
                 : ATTILE_WGMMA_BIND_64(0) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(n))
#define ATTILE_SCORES_OF(types)                                               \
    if constexpr (kColumns == 64) ATTILE_SCORES("64", 32, types, "32", "33", "34"); \
    else if constexpr (kColumns == 80) ATTILE_SCORES("80", 40, types, "40", "41", "42"); \
    else if constexpr (kColumns == 128) ATTILE_SCORES("128", 64, types, "64", "65", "66"); \
    else static_assert(kColumns == 64, "a width that is written out")
#define ATTILE_VALUES_OF(types) \
    if constexpr (kColumns == 64) ATTILE_VALUES("64", 32, types, "32", "33", "34", "35", "36"); \
    else if constexpr (kColumns == 96) ATTILE_VALUES("96", 48, types, "48", "49", "50", "51", "52"); \
    else if constexpr (kColumns == 128) ATTILE_VALUES("128", 64, types, "64", "65", "66", "67", "68"); \
    else if constexpr (kColumns == 192) ATTILE_VALUES("192", 96, types, "96", "97", "98", "99", "100"); \
    else if constexpr (kColumns == 256) ATTILE_VALUES("256", 128, types, "128", "129", "130", "131", "132"); \
    else static_assert(kColumns == 64, "a width that is written out")
// clang-format on

// keeps 0: overwrites the sums.
template <class Element, int kColumns>
__device__ __forceinline__ void score_product(float (&sums)[kColumns / 2], uint64_t q, uint64_t k, int keeps) {
    if constexpr (std::is_same_v<Element, F16>)
        ATTILE_SCORES_OF("f16.f16");
    else
        ATTILE_SCORES_OF("bf16.bf16");
}
template <class Element, int kColumns>
__device__ __forceinline__ void value_product(float (&sums)[kColumns / 2], const uint32_t *p, uint64_t v) {
    if constexpr (std::is_same_v<Element, F16>)
        ATTILE_VALUES_OF("f16.f16");
    else
        ATTILE_VALUES_OF("bf16.bf16");
}

template <class Element>
__device__ __forceinline__ void distance_product(float (&sums)[64], const uint32_t (&a)[4], uint64_t n) {
    if constexpr (std::is_same_v<Element, F16>)
        ATTILE_DISTANCES("f16.f16");
    else
        ATTILE_DISTANCES("bf16.bf16");
}

#undef ATTILE_DISTANCES
#undef ATTILE_VALUES_OF
#undef ATTILE_SCORES_OF
#undef ATTILE_VALUES
#undef ATTILE_SCORES

}  // namespace attile::gpu::sm90
