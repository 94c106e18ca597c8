// SPDX-License-Identifier: Apache-2.0
// The families whose kernels this build has; what the device runs of them it says itself.
#include "attention_backward/families.h"

#include "attention_backward/simt/plan.h"
#include "attention_backward/sm80/plan.h"
#include "attention_backward/sm90/plan.h"
#include "sm80/kernels.h"
#include "sm90/kernels.h"

namespace attile::gpu {
namespace {

// Kernels that run, those they stand back for, plan.
constexpr Family<attile_attention_backward_problem> kList[] = {
#if defined(ATTILE_GPU_HAS_SM90)
    {&sm90::kKernels, nullptr, sm90::plan_attention_backward},  // f16, bf16
#endif
#if defined(ATTILE_GPU_HAS_SM80)
    {&sm80::kKernels, nullptr, sm80::plan_attention_backward},  // f16, bf16
#endif
    {nullptr, nullptr, simt::plan_attention_backward},
};

}  // namespace

const Families<attile_attention_backward_problem> kAttentionBackwardFamilies(kList);

}  // namespace attile::gpu
