// SPDX-License-Identifier: Apache-2.0
// The same products of 8-bit floats, 32 of depth at a time, with sums in float32. Both operands are contiguous along the depth. Registers
// hold the sums as product.cuh says. The tensor core cuts products and sums off at 2^-13 of the largest among them.
#pragma once

#include <cstdint>

#include "eight_bits.h"
#include "sm90/wgmma.cuh"

namespace attile::gpu::sm90 {

#pragma push_macro("ATTILE_WGMMA_SUM")
#undef ATTILE_WGMMA_SUM
#define ATTILE_WGMMA_SUM(x) ATTILE_SUM_ACCESS(x)
#define ATTILE_PRODUCT(columns, count, a, b, keep)                                                        \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %" keep ", 0; wgmma.mma_async.sync.aligned.m64n" columns \
                 "k32.f32.e4m3.e4m3 {" ATTILE_WGMMA_SUMS_##count "}, %" a ", %" b ", p, 1, 1; }"          \
                 : ATTILE_WGMMA_BIND_##count(0)                                                           \
                 : "l"(a_panel), "l"(b_panel), "r"(keeps))

// sums = A B + (keeps ? sums : 0) of e4m3, asynchronously. The panels are product_operand()s.
#define ATTILE_SUM_ACCESS(x) "+f"(x)
template <int kColumns>
__device__ __forceinline__ void gemm_product_fp8(float (&sums)[kColumns / 2], uint64_t a_panel, uint64_t b_panel, int keeps) {
    if constexpr (kColumns == 64) {
        ATTILE_PRODUCT("64", 32, "32", "33", "34");
    } else if constexpr (kColumns == 128) {
        ATTILE_PRODUCT("128", 64, "64", "65", "66");
    } else {
        static_assert(kColumns == 256, "a shape that is written out");
        ATTILE_PRODUCT("256", 128, "128", "129", "130");
    }
}
#undef ATTILE_SUM_ACCESS

// sums = A B, written alone: the registers are free until then, which those of a group's sums have to be.
#define ATTILE_SUM_ACCESS(x) "=f"(x)
template <int kColumns>
__device__ __forceinline__ void gemm_first_product_fp8(float (&sums)[kColumns / 2], uint64_t a_panel, uint64_t b_panel) {
    constexpr int keeps = 0;
    static_assert(kColumns == 128, "a shape that is written out");
    ATTILE_PRODUCT("128", 64, "64", "65", "66");
}
#undef ATTILE_SUM_ACCESS

#undef ATTILE_PRODUCT
#pragma pop_macro("ATTILE_WGMMA_SUM")

}  // namespace attile::gpu::sm90
