// SPDX-License-Identifier: Apache-2.0
// Which instruction sets the kernels are compiled for, and the include that every kernel file begins with instead of Highway's own.
//
// Only Highway's headers are used: the choice at run time is ours (cpu_detect.cpp), so that it belongs to a context and not to the
// process, and so that the plugin needs no shared library of Highway's. HWY_SCALAR is Highway's name for plain x86-64; kernel files skip
// it, since a processor without SSE4.2 is refused by probe.
#ifndef ATTILE_CPU_TARGETS_H
#define ATTILE_CPU_TARGETS_H

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#define HWY_DISABLE_PCLMUL_AES

namespace attile::cpu {

// Best first; the numbers index tables.
enum class Target : int { kAvx512, kAvx2, kSse4, kNeon, kNone };

}  // namespace attile::cpu

#endif  // ATTILE_CPU_TARGETS_H
