// SPDX-License-Identifier: Apache-2.0
// The families whose kernels this build has; what the device runs of them it says itself.
#include "attention/families.h"

#include "attention/simt/plan.h"
#include "attention/sm80/plan.h"
#include "attention/sm90/plan.h"
#include "attention/sm90/tf32x3_plan.h"
#include "sm80/kernels.h"
#include "sm90/kernels.h"

namespace attile::gpu {
namespace {

// Kernels read q, k and v as of one type, and a bias as of that or of f32.
Planned<attile_attention_problem> refuse_several_types(Device & /*device*/, const attile_attention_problem &problem) {
    const auto is_like_q = [&](const attile_operand &x) { return x.dtype == problem.q.dtype; };
    const bool bias = problem.bias.dtype == 0 || problem.bias.dtype == ATTILE_F32 || is_like_q(problem.bias);
    if (is_like_q(problem.k) && is_like_q(problem.v) && bias) return {};
    return Planned<attile_attention_problem>::refused(
        ATTILE_ERROR_UNSUPPORTED_DTYPE,
        "attention: k, v or bias of another type than q are not there on this backend; cpu and reference have them");
}

// Kernels that run, those they stand back for, plan.
constexpr Family<attile_attention_problem> kList[] = {
    {nullptr, nullptr, refuse_several_types},
#if defined(ATTILE_GPU_HAS_SM90)
    {&sm90::kKernels, nullptr, sm90::plan_attention},         // f16, bf16
    {&sm90::kKernels, nullptr, sm90::plan_attention_tf32x3},  // f32
#endif
#if defined(ATTILE_GPU_HAS_SM80)
    {&sm80::kKernels, nullptr, sm80::plan_attention},  // f16, bf16, f32
#endif
    {nullptr, nullptr, simt::plan_attention},
};

}  // namespace

const Families<attile_attention_problem> kAttentionFamilies(kList);

}  // namespace attile::gpu
