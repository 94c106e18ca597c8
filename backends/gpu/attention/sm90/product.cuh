// SPDX-License-Identifier: Apache-2.0
// Attention's two products on a warpgroup, 64 rows by kColumns columns by 16 of depth, sums in float32:
//   score_product   S += Q K^T  both in shared memory, contiguous along the depth
//   value_product   O += P V    P in registers, V in shared memory, contiguous along the columns
// Thread t of warp w holds rows 16 w + t / 4 and that + 8: sums[4 j] and the next are columns 8 j + 2 (t % 4) and the next of the first
// row, sums[4 j + 2] and the next those of the second. Two such 8-column pieces, narrowed, are P's fragment for 16 of depth.
#pragma once

#include <cstdint>
#include <type_traits>

#include "numeric.h"

namespace attile::gpu::sm90 {

// clang-format off
#define ATTILE_BIND_16_AT_0 "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]), \
    "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15])
#define ATTILE_BIND_16_AT_16 "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), \
    "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31])
#define ATTILE_BIND_16_AT_32 "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), \
    "+f"(sums[40]), "+f"(sums[41]), "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]), "+f"(sums[47])
#define ATTILE_BIND_16_AT_48 "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]), "+f"(sums[51]), "+f"(sums[52]), "+f"(sums[53]), "+f"(sums[54]), "+f"(sums[55]), \
    "+f"(sums[56]), "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59]), "+f"(sums[60]), "+f"(sums[61]), "+f"(sums[62]), "+f"(sums[63])
#define ATTILE_BIND_16_AT_64 "+f"(sums[64]), "+f"(sums[65]), "+f"(sums[66]), "+f"(sums[67]), "+f"(sums[68]), "+f"(sums[69]), "+f"(sums[70]), "+f"(sums[71]), \
    "+f"(sums[72]), "+f"(sums[73]), "+f"(sums[74]), "+f"(sums[75]), "+f"(sums[76]), "+f"(sums[77]), "+f"(sums[78]), "+f"(sums[79])
#define ATTILE_BIND_16_AT_80 "+f"(sums[80]), "+f"(sums[81]), "+f"(sums[82]), "+f"(sums[83]), "+f"(sums[84]), "+f"(sums[85]), "+f"(sums[86]), "+f"(sums[87]), \
    "+f"(sums[88]), "+f"(sums[89]), "+f"(sums[90]), "+f"(sums[91]), "+f"(sums[92]), "+f"(sums[93]), "+f"(sums[94]), "+f"(sums[95])
#define ATTILE_BIND_16_AT_96 "+f"(sums[96]), "+f"(sums[97]), "+f"(sums[98]), "+f"(sums[99]), "+f"(sums[100]), "+f"(sums[101]), "+f"(sums[102]), "+f"(sums[103]), \
    "+f"(sums[104]), "+f"(sums[105]), "+f"(sums[106]), "+f"(sums[107]), "+f"(sums[108]), "+f"(sums[109]), "+f"(sums[110]), "+f"(sums[111])
#define ATTILE_BIND_16_AT_112 "+f"(sums[112]), "+f"(sums[113]), "+f"(sums[114]), "+f"(sums[115]), "+f"(sums[116]), "+f"(sums[117]), "+f"(sums[118]), "+f"(sums[119]), \
    "+f"(sums[120]), "+f"(sums[121]), "+f"(sums[122]), "+f"(sums[123]), "+f"(sums[124]), "+f"(sums[125]), "+f"(sums[126]), "+f"(sums[127])
#define ATTILE_BIND_8_AT_32 "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39])
#define ATTILE_BIND_32 ATTILE_BIND_16_AT_0, ATTILE_BIND_16_AT_16
#define ATTILE_BIND_40 ATTILE_BIND_16_AT_0, ATTILE_BIND_16_AT_16, ATTILE_BIND_8_AT_32
#define ATTILE_BIND_48 ATTILE_BIND_16_AT_0, ATTILE_BIND_16_AT_16, ATTILE_BIND_16_AT_32
#define ATTILE_BIND_64 ATTILE_BIND_16_AT_0, ATTILE_BIND_16_AT_16, ATTILE_BIND_16_AT_32, ATTILE_BIND_16_AT_48
#define ATTILE_BIND_128 ATTILE_BIND_16_AT_0, ATTILE_BIND_16_AT_16, ATTILE_BIND_16_AT_32, ATTILE_BIND_16_AT_48, ATTILE_BIND_16_AT_64, ATTILE_BIND_16_AT_80, ATTILE_BIND_16_AT_96, ATTILE_BIND_16_AT_112
#define ATTILE_SUMS_32 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define ATTILE_SUMS_40 ATTILE_SUMS_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define ATTILE_SUMS_48 ATTILE_SUMS_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define ATTILE_SUMS_64 ATTILE_SUMS_48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define ATTILE_SUMS_128 ATTILE_SUMS_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95" \
    ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

// a, b, ... are the numbers of the operands after the sums.
#define ATTILE_SCORES(columns, count, types, a, b, keep)                                                                    \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %" keep ", 0; wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." types  \
                 " {" ATTILE_SUMS_##count "}, %" a ", %" b ", p, 1, 1, 0, 0; }"                                             \
                 : ATTILE_BIND_##count : "l"(q), "l"(k), "r"(keeps))
#define ATTILE_VALUES(columns, count, types, a0, a1, a2, a3, b)                                                             \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." types                                               \
                 " {" ATTILE_SUMS_##count "}, {%" a0 ", %" a1 ", %" a2 ", %" a3 "}, %" b ", 1, 1, 1, 1;"                    \
                 : ATTILE_BIND_##count : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "l"(v))
#define ATTILE_SCORES_OF(types)                                               \
    if constexpr (kColumns == 80) ATTILE_SCORES("80", 40, types, "40", "41", "42"); \
    else if constexpr (kColumns == 128) ATTILE_SCORES("128", 64, types, "64", "65", "66"); \
    else static_assert(kColumns == 80, "a width that is written out")
#define ATTILE_VALUES_OF(types) \
    if constexpr (kColumns == 64) ATTILE_VALUES("64", 32, types, "32", "33", "34", "35", "36"); \
    else if constexpr (kColumns == 96) ATTILE_VALUES("96", 48, types, "48", "49", "50", "51", "52"); \
    else if constexpr (kColumns == 128) ATTILE_VALUES("128", 64, types, "64", "65", "66", "67", "68"); \
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

#undef ATTILE_VALUES_OF
#undef ATTILE_SCORES_OF
#undef ATTILE_VALUES
#undef ATTILE_SCORES
#undef ATTILE_BIND_8_AT_32
#undef ATTILE_BIND_32
#undef ATTILE_BIND_40
#undef ATTILE_BIND_48
#undef ATTILE_BIND_64
#undef ATTILE_BIND_128
#undef ATTILE_SUMS_32
#undef ATTILE_SUMS_40
#undef ATTILE_SUMS_48
#undef ATTILE_SUMS_64
#undef ATTILE_SUMS_128
#undef ATTILE_BIND_16_AT_0
#undef ATTILE_BIND_16_AT_16
#undef ATTILE_BIND_16_AT_32
#undef ATTILE_BIND_16_AT_48
#undef ATTILE_BIND_16_AT_64
#undef ATTILE_BIND_16_AT_80
#undef ATTILE_BIND_16_AT_96
#undef ATTILE_BIND_16_AT_112

}  // namespace attile::gpu::sm90
