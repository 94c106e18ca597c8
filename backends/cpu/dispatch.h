// SPDX-License-Identifier: Apache-2.0
// From a Target to the functions compiled for it: used at the end of every_target.h and of other kernel files, inside HWY_ONCE.
#ifndef ATTILE_CPU_DISPATCH_H
#define ATTILE_CPU_DISPATCH_H

// Sets that this build leaves out are never chosen (detect.cpp); their names stand for nothing here.
#if defined(ATTILE_CPU_WITHOUT_AVX512)
#define ATTILE_CPU_CASE_AVX512(function)
#else
#define ATTILE_CPU_CASE_AVX512(function) \
    if (has_pairs(target) || target == Target::kAvx512) return N_AVX3::function();
#endif
#if defined(ATTILE_CPU_WITHOUT_AVX2)
#define ATTILE_CPU_CASE_AVX2(function)
#else
#define ATTILE_CPU_CASE_AVX2(function) \
    if (target == Target::kAvx2) return N_AVX2::function();
#endif
#if !defined(ATTILE_CPU_WITHOUT_SSE4)
#define ATTILE_CPU_LAST N_SSE4
#elif !defined(ATTILE_CPU_WITHOUT_AVX2)
#define ATTILE_CPU_LAST N_AVX2
#else
#define ATTILE_CPU_LAST N_AVX3
#endif

#if defined(__x86_64__)
#define ATTILE_CPU_DISPATCH(Declaration, function) \
    Declaration([[maybe_unused]] Target target) {  \
        ATTILE_CPU_CASE_AVX512(function)           \
        ATTILE_CPU_CASE_AVX2(function)             \
        return ATTILE_CPU_LAST::function();        \
    }
#else
#define ATTILE_CPU_DISPATCH(Declaration, function) \
    Declaration(Target) { return N_NEON::function(); }
#endif

#endif  // ATTILE_CPU_DISPATCH_H
