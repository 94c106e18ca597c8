// SPDX-License-Identifier: Apache-2.0
// GEMM's products on a warpgroup: 64 rows by kColumns columns by 16 of depth, both operands in shared memory, sums in float32. Lane l of
// warp w holds columns 8 i + 2 (l % 4) and the next, for every i: of row 16 w + l / 4 in sums[4 i] and sums[4 i + 1], and of the row eight
// further on in the two after them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "numeric.h"

namespace attile::gpu::sm90 {

// clang-format off
// Operand numbers of the sums in the instruction, and the registers themselves.
#define ATTILE_SUMS_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define ATTILE_SUMS_16 ATTILE_SUMS_8 ", " "%8, %9, %10, %11, %12, %13, %14, %15"
#define ATTILE_SUMS_32 ATTILE_SUMS_16 ", " "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define ATTILE_SUMS_64 ATTILE_SUMS_32 ", " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define ATTILE_SUMS_128 ATTILE_SUMS_64 ", " \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define ATTILE_BIND_4(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define ATTILE_BIND_8(i) ATTILE_BIND_4(i), ATTILE_BIND_4(i + 4)
#define ATTILE_BIND_16(i) ATTILE_BIND_8(i), ATTILE_BIND_8(i + 8)
#define ATTILE_BIND_32(i) ATTILE_BIND_16(i), ATTILE_BIND_16(i + 16)
#define ATTILE_BIND_64(i) ATTILE_BIND_32(i), ATTILE_BIND_32(i + 32)
#define ATTILE_BIND_128(i) ATTILE_BIND_64(i), ATTILE_BIND_64(i + 64)
// clang-format on

// `types` of A and B; a, b, keep, ta and tb are the numbers of the operands after the sums.
#define ATTILE_PRODUCT(columns, count, types, a, b, keep, ta, tb)                                                          \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %" keep ", 0; wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." types \
                 " {" ATTILE_SUMS_##count "}, %" a ", %" b ", p, 1, 1, %" ta ", %" tb "; }"                                \
                 : ATTILE_BIND_##count(0)                                                                                  \
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
#undef ATTILE_BIND_128
#undef ATTILE_BIND_64
#undef ATTILE_BIND_32
#undef ATTILE_BIND_16
#undef ATTILE_BIND_8
#undef ATTILE_BIND_4
#undef ATTILE_SUMS_128
#undef ATTILE_SUMS_64
#undef ATTILE_SUMS_32
#undef ATTILE_SUMS_16
#undef ATTILE_SUMS_8

}  // namespace attile::gpu::sm90
