// SPDX-License-Identifier: Apache-2.0
// The families whose kernels this build has; what the device runs of them it says itself.
#include "attention/families.h"

#include "attention/exact/plan.h"
#include "attention/mma/copies.h"
#include "attention/plan.h"
#include "attention/result.h"
#include "attention/simt/plan.h"
#include "attention/sm80/plan.h"
#include "attention/sm90/bytes_plan.h"
#include "attention/sm90/plan.h"
#include "attention/sm90/tf32x3_plan.h"
#include "sm80/kernels.h"
#include "sm90/kernels.h"

namespace attile::gpu {
namespace {

// SIMT's kernels alone read numbers of 8 bits, and keys, values and a bias of other types than q. Those for tensor cores get rows of 8 bits
// that are worth rewriting.
Planned<attile_attention_problem> plan_several_types(Device &device, const attile_attention_problem &problem) {
    if (!attention_has_several_types(problem)) return {};
#if defined(ATTILE_GPU_HAS_SM80)
    if (device.runs(sm80::kKernels) && mma::attention_rewriting(device, problem, mma::MaskKernels::kNone).widened.any()) return {};
#endif
    return simt::plan_attention(device, problem);
}

// Kernels that run, those they stand back for, plan.
constexpr Family<attile_attention_problem> kList[] = {
    {nullptr, nullptr, exact::plan_attention},  // f64, f32; those below round sums as they go,
    {nullptr, nullptr, plan_attention_result},  // and store no 8 bits.
#if defined(ATTILE_GPU_HAS_SM90)
    {&sm90::kKernels, nullptr, sm90::plan_attention_bytes},  // e4m3
#endif
    {nullptr, nullptr, plan_several_types},
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
