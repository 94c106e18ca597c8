// SPDX-License-Identifier: Apache-2.0
// Which instruction sets the kernels are compiled for, and the include that every kernel file begins with instead of Highway's own.
//
// Only Highway's headers are used: the choice at run time is ours (detect.cpp), so that it belongs to a context and not to the
// process, and so that the plugin needs no shared library of Highway's. HWY_SCALAR is Highway's name for plain x86-64; kernel files skip
// it, since a processor without SSE4.2 is refused by probe.
#ifndef ATTILE_CPU_TARGETS_H
#define ATTILE_CPU_TARGETS_H

// ATTILE_CPU_TARGETS (CMake) leaves some of the sets for x86-64 out, so that a build whose code compilers are slow with takes less time.
#if defined(ATTILE_CPU_WITHOUT_AVX512)
#define ATTILE_CPU_LEAVE_OUT_AVX512 HWY_AVX3
#else
#define ATTILE_CPU_LEAVE_OUT_AVX512 0
#endif
#if defined(ATTILE_CPU_WITHOUT_AVX2)
#define ATTILE_CPU_LEAVE_OUT_AVX2 HWY_AVX2
#else
#define ATTILE_CPU_LEAVE_OUT_AVX2 0
#endif
#if defined(ATTILE_CPU_WITHOUT_SSE4)
#define ATTILE_CPU_LEAVE_OUT_SSE4 HWY_SSE4
#else
#define ATTILE_CPU_LEAVE_OUT_SSE4 0
#endif

#define HWY_DISABLED_TARGETS                                                                                                               \
    (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | ATTILE_CPU_LEAVE_OUT_AVX512 | ATTILE_CPU_LEAVE_OUT_AVX2 | \
     ATTILE_CPU_LEAVE_OUT_SSE4)
#define HWY_DISABLE_PCLMUL_AES
// Builds to be debugged or sanitized have assertions else, which call a function of the library.
#define HWY_IS_DEBUG_BUILD 0

namespace attile::cpu {

// Best first. kAvx512Bf16 is kAvx512 on a processor that also multiplies pairs of bfloat16 (AVX512-BF16): the same kernels, and others
// beside them for products of bfloat16. kAmxBf16 is kAvx512Bf16 on one that has tiles of bfloat16, too (AMX). kNeonDot is kNeon on one that
// multiplies fours of int8 (FEAT_DotProd), kNeonI8mm is kNeonDot on one that multiplies matrices of them (FEAT_I8MM).
enum class Target : int { kAmxBf16, kAvx512Bf16, kAvx512, kAvx2, kSse4, kNeonI8mm, kNeonDot, kNeon, kNone };

constexpr bool has_pairs(Target target) { return target == Target::kAmxBf16 || target == Target::kAvx512Bf16; }
constexpr bool has_quads(Target target) { return has_pairs(target) || target == Target::kNeonDot || target == Target::kNeonI8mm; }

}  // namespace attile::cpu

#endif  // ATTILE_CPU_TARGETS_H
