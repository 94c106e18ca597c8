// SPDX-License-Identifier: Apache-2.0
// The row-wise operations with sums in float64, compiled once per target.
#define ATTILE_CPU_KERNELS_INL "rows/kernels-inl.h"
#define ATTILE_CPU_TABLE RowKernels
#define ATTILE_CPU_PICK row_kernels
#define ATTILE_CPU_SUMS double
#include "every_target.h"
