// SPDX-License-Identifier: Apache-2.0
// Attention forward with sums in float64, compiled once per target.
#define ATTILE_CPU_KERNELS_INL "attention/kernels-inl.h"
#define ATTILE_CPU_TABLE AttentionKernels
#define ATTILE_CPU_PICK attention_kernels
#define ATTILE_CPU_SUMS double
#include "every_target.h"
