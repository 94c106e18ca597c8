// SPDX-License-Identifier: Apache-2.0
// From a Target to the functions compiled for it: used at the end of a kernel file, inside HWY_ONCE.
#ifndef ATTILE_CPU_DISPATCH_H
#define ATTILE_CPU_DISPATCH_H

#if defined(__x86_64__)
#define ATTILE_CPU_DISPATCH(Type, function, name) \
    static const Type &name(Target target) {      \
        switch (target) {                         \
            case Target::kAvx512:                 \
                return N_AVX3::function();        \
            case Target::kAvx2:                   \
                return N_AVX2::function();        \
            default:                              \
                return N_SSE4::function();        \
        }                                         \
    }
#else
#define ATTILE_CPU_DISPATCH(Type, function, name) \
    static const Type &name(Target) { return N_NEON::function(); }
#endif

#endif  // ATTILE_CPU_DISPATCH_H
