// SPDX-License-Identifier: Apache-2.0
// GEMM's products on a warpgroup: 64 rows by kColumns columns by 16 of depth, both operands in shared memory, sums in float32. Lane l of
// warp w holds columns 8 i + 2 (l % 4) and the next, for every i: of row 16 w + l / 4 in sums[4 i] and sums[4 i + 1], and of the row eight
// further on in the two after them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "numeric.h"
#include "sm90/wgmma.cuh"

namespace attile::gpu::sm90 {

// `types` of A and B; a, b, keep, ta and tb are the numbers of the operands after the sums.
#define ATTILE_PRODUCT(columns, count, types, a, b, keep, ta, tb)                                                          \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %" keep ", 0; wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." types \
                 " {" ATTILE_WGMMA_SUMS_##count "}, %" a ", %" b ", p, 1, 1, %" ta ", %" tb "; }"                          \
                 : ATTILE_WGMMA_BIND_##count(0)                                                                            \
                 : "l"(a_panel), "l"(b_panel), "r"(keeps), "n"(kOuterA), "n"(kOuterB))

#define ATTILE_PRODUCTS_OF(types)                                             \
    if constexpr (kColumns == 16) {                                           \
        ATTILE_PRODUCT("16", 8, types, "8", "9", "10", "11", "12");           \
    } else if constexpr (kColumns == 32) {                                    \
        ATTILE_PRODUCT("32", 16, types, "16", "17", "18", "19", "20");        \
    } else if constexpr (kColumns == 64) {                                    \
        ATTILE_PRODUCT("64", 32, types, "32", "33", "34", "35", "36");        \
    } else if constexpr (kColumns == 128) {                                   \
        ATTILE_PRODUCT("128", 64, types, "64", "65", "66", "67", "68");       \
    } else if constexpr (kColumns == 144) {                                   \
        ATTILE_PRODUCT("144", 72, types, "72", "73", "74", "75", "76");       \
    } else if constexpr (kColumns == 160) {                                   \
        ATTILE_PRODUCT("160", 80, types, "80", "81", "82", "83", "84");       \
    } else if constexpr (kColumns == 176) {                                   \
        ATTILE_PRODUCT("176", 88, types, "88", "89", "90", "91", "92");       \
    } else if constexpr (kColumns == 192) {                                   \
        ATTILE_PRODUCT("192", 96, types, "96", "97", "98", "99", "100");      \
    } else if constexpr (kColumns == 208) {                                   \
        ATTILE_PRODUCT("208", 104, types, "104", "105", "106", "107", "108"); \
    } else if constexpr (kColumns == 240) {                                   \
        ATTILE_PRODUCT("240", 120, types, "120", "121", "122", "123", "124"); \
    } else {                                                                  \
        static_assert(kColumns == 256, "a shape that is written out");        \
        ATTILE_PRODUCT("256", 128, types, "128", "129", "130", "131", "132"); \
    }

// sums = A B + (keeps ? sums : 0), asynchronously. kOuterA: A is contiguous along its rows instead of along the depth; kOuterB: B along its
// columns. The panels are product_operand()s.
template <class Element, int kColumns, int kOuterA, int kOuterB>
__device__ __forceinline__ void gemm_product(float (&sums)[kColumns / 2], uint64_t a_panel, uint64_t b_panel, int keeps) {
    if constexpr (std::is_same_v<Element, F16>) {
        ATTILE_PRODUCTS_OF("f16.f16")
    } else {
        ATTILE_PRODUCTS_OF("bf16.bf16")
    }
}

#undef ATTILE_PRODUCTS_OF
#undef ATTILE_PRODUCT

}  // namespace attile::gpu::sm90
