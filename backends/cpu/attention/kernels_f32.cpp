// SPDX-License-Identifier: Apache-2.0
// Attention forward with sums in float32, compiled once per target.
#include "targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/kernels_f32.cpp"
#include <hwy/foreach_target.h>

#include "attention/kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR
const AttentionKernels<float> &attention_f32() { return kernels<float>(); }
#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "dispatch.h"
namespace attile::cpu {
ATTILE_CPU_DISPATCH(template <> const AttentionKernels<float> &attention_kernels<float>, attention_f32)
}  // namespace attile::cpu
#endif  // HWY_ONCE
