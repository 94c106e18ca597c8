// SPDX-License-Identifier: Apache-2.0
// Exact products, compiled once per target.
#define ATTILE_CPU_KERNELS_INL "gemm/exact-inl.h"
#define ATTILE_CPU_TABLE ExactKernels
#define ATTILE_CPU_PICK exact_kernels
#define ATTILE_CPU_SUMS double
#include "every_target.h"
