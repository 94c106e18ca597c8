// SPDX-License-Identifier: Apache-2.0
// Gradients of attention with sums in float32, compiled once per target.
#define ATTILE_CPU_KERNELS_INL "attention_backward/kernels-inl.h"
#define ATTILE_CPU_TABLE BackwardKernels
#define ATTILE_CPU_PICK backward_kernels
#define ATTILE_CPU_SUMS float
#include "every_target.h"
