// SPDX-License-Identifier: Apache-2.0
// Products of int8, compiled once per target.
#define ATTILE_CPU_KERNELS_INL "gemm/integer-inl.h"
#define ATTILE_CPU_TABLE IntegerKernels
#define ATTILE_CPU_PICK integer_kernels
#define ATTILE_CPU_SUMS int32_t
#include "every_target.h"
