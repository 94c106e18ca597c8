// SPDX-License-Identifier: Apache-2.0
// Exact rows, compiled once per target.
#define ATTILE_CPU_KERNELS_INL "rows/exact-inl.h"
#define ATTILE_CPU_TABLE ExactRowKernels
#define ATTILE_CPU_PICK exact_row_kernels
#define ATTILE_CPU_SUMS double
#include "every_target.h"
