// SPDX-License-Identifier: Apache-2.0
// Attention forward with sums in float64, compiled once per target.
#include "targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/kernels_f64.cpp"
#include <hwy/foreach_target.h>

#include "attention/kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR
const AttentionKernels<double> &attention_f64() { return kernels<double>(); }
#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "dispatch.h"
namespace attile::cpu {
ATTILE_CPU_DISPATCH(template <> const AttentionKernels<double> &attention_kernels<double>, attention_f64)
}  // namespace attile::cpu
#endif  // HWY_ONCE
