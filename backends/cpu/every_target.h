// SPDX-License-Identifier: Apache-2.0
// The whole of a kernel file: one table of kernels, compiled for every target, and the function that picks the target's table. Such a file
// defines, and then includes this header, which has no guard because Highway includes it once more for each target:
//   ATTILE_CPU_KERNELS_INL  the header with the kernels and their table, kernels<sums>(), e.g. "gemm/kernels-inl.h"
//   ATTILE_CPU_TABLE        the type of the table, e.g. GemmKernels
//   ATTILE_CPU_PICK         the function that picks one, e.g. gemm_kernels
//   ATTILE_CPU_SUMS         the type of sums, float or double
#include "targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "every_target.h"
#include <hwy/foreach_target.h>

#include ATTILE_CPU_KERNELS_INL

#if HWY_ONCE
#include "dispatch.h"
namespace attile::cpu {
ATTILE_CPU_DISPATCH(template <> const ATTILE_CPU_TABLE<ATTILE_CPU_SUMS> &ATTILE_CPU_PICK<ATTILE_CPU_SUMS>, kernels<ATTILE_CPU_SUMS>)
}  // namespace attile::cpu
#endif  // HWY_ONCE
