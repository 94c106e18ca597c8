// SPDX-License-Identifier: Apache-2.0
// Matrix multiplication with sums in float64, compiled once per target.
#define ATTILE_CPU_KERNELS_INL "gemm/kernels-inl.h"
#define ATTILE_CPU_TABLE GemmKernels
#define ATTILE_CPU_PICK gemm_kernels
#define ATTILE_CPU_SUMS double
#include "every_target.h"
