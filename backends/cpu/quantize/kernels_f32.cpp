// SPDX-License-Identifier: Apache-2.0
// Quantisation, compiled once per target.
#define ATTILE_CPU_KERNELS_INL "quantize/kernels-inl.h"
#define ATTILE_CPU_TABLE QuantizeKernels
#define ATTILE_CPU_PICK quantize_kernels
#define ATTILE_CPU_SUMS float
#include "every_target.h"
