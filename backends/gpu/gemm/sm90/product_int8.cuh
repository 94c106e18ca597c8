// SPDX-License-Identifier: Apache-2.0
// The same products of int8, 32 of depth at a time, with sums in int32. Both operands are contiguous along the depth. Registers hold the
// sums as product.cuh says.
#pragma once

#include <cstdint>

#include "sm90/wgmma.cuh"

namespace attile::gpu::sm90 {

#pragma push_macro("ATTILE_WGMMA_SUM")
#undef ATTILE_WGMMA_SUM
#define ATTILE_WGMMA_SUM(x) ATTILE_SUM_ACCESS(x)
#define ATTILE_PRODUCT(columns, count, a, b, keep)                                                        \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %" keep ", 0; wgmma.mma_async.sync.aligned.m64n" columns \
                 "k32.s32.s8.s8 {" ATTILE_WGMMA_SUMS_##count "}, %" a ", %" b ", p; }"                    \
                 : ATTILE_WGMMA_BIND_##count(0)                                                           \
                 : "l"(a_panel), "l"(b_panel), "r"(keeps))
#define ATTILE_PRODUCTS                                                \
    if constexpr (kColumns == 64) {                                    \
        ATTILE_PRODUCT("64", 32, "32", "33", "34");                    \
    } else if constexpr (kColumns == 128) {                            \
        ATTILE_PRODUCT("128", 64, "64", "65", "66");                   \
    } else {                                                           \
        static_assert(kColumns == 256, "a shape that is written out"); \
        ATTILE_PRODUCT("256", 128, "128", "129", "130");               \
    }

// sums += A B, asynchronously. The panels are product_operand()s.
#define ATTILE_SUM_ACCESS(x) "+r"(x)
template <int kColumns>
__device__ __forceinline__ void gemm_product_int8(int32_t (&sums)[kColumns / 2], uint64_t a_panel, uint64_t b_panel) {
    constexpr int keeps = 1;
    ATTILE_PRODUCTS
}
#undef ATTILE_SUM_ACCESS

// sums = A B. They are written alone: were they read as well, the registers of the tile before would be in use beside the float32 numbers
// that its sums became, and the compiler would spill.
#define ATTILE_SUM_ACCESS(x) "=r"(x)
template <int kColumns>
__device__ __forceinline__ void gemm_first_product_int8(int32_t (&sums)[kColumns / 2], uint64_t a_panel, uint64_t b_panel) {
    constexpr int keeps = 0;
    ATTILE_PRODUCTS
}
#undef ATTILE_SUM_ACCESS

#undef ATTILE_PRODUCTS
#undef ATTILE_PRODUCT
#pragma pop_macro("ATTILE_WGMMA_SUM")

}  // namespace attile::gpu::sm90
