// SPDX-License-Identifier: Apache-2.0
// Numbers of 8 bits in products with sums in float32, compiled once per target.
#define ATTILE_CPU_KERNELS_INL "gemm/narrow-inl.h"
#define ATTILE_CPU_TABLE NarrowKernels
#define ATTILE_CPU_PICK narrow_kernels
#define ATTILE_CPU_SUMS float
#include "every_target.h"
