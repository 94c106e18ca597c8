// SPDX-License-Identifier: Apache-2.0
// The families whose kernels this build has; what the device runs of them it says itself.
#include "gemm/families.h"

#include "gemm/exact/kernels.h"
#include "gemm/exact/plan.h"
#include "gemm/narrow/plan.h"
#include "gemm/narrow/result.h"
#include "gemm/simt/plan.h"
#include "gemm/sm80/few_narrow.h"
#include "gemm/sm80/plan.h"
#if defined(ATTILE_GPU_HAS_SM90)
#include "gemm/sm90/plan.h"  // Names its instances, which other builds do not make.
#endif
#include "sm80/kernels.h"
#include "sm90/kernels.h"

namespace attile::gpu {
namespace {

#if defined(ATTILE_GPU_HAS_SM80)
// Where addresses that it depends on are not known yet, it asks for the workspace that another plan may want.
Planned<attile_gemm_problem> plan_few_narrow(Device &device, const attile_gemm_problem &p) {
    const Planned<attile_gemm_problem> planned = sm80::plan_few_narrow(device, p, 0);
    if (!planned.has_plan() || (p.a.data != nullptr && p.b.data != nullptr)) return planned;
    return sm80::plan_few_narrow(device, p, narrow::plan_gemm(device, p).workspace_bytes());
}
#endif

// Kernels that run, those they stand back for, plan.
constexpr Family<attile_gemm_problem> kList[] = {
    {nullptr, nullptr, exact::plan_gemm},          // Those below round sums as they go,
    {nullptr, nullptr, narrow::plan_gemm_result},  // and store no 8 bits.
#if defined(ATTILE_GPU_HAS_SM90)
    {&sm90::kKernels, nullptr, sm90::plan_gemm_eight_bits},  // i8, e4m3
#endif
#if defined(ATTILE_GPU_HAS_SM80)
    {&sm80::kKernels, nullptr, plan_few_narrow},  // f16, bf16 times 8 or 4 bits
#endif
    {nullptr, nullptr, narrow::plan_gemm},  // Those below look at the type of one operand.
#if defined(ATTILE_GPU_HAS_SM90)
    {&sm90::kKernels, nullptr, sm90::plan_gemm},  // f16, bf16
#endif
#if defined(ATTILE_GPU_HAS_SM80)
    {&sm80::kKernels, &sm90::kKernels, sm80::plan_gemm},  // f16, bf16; what Hopper's leave would not be worth it here either
    {&sm80::kKernels, nullptr, sm80::plan_gemm_tf32x3},   // f32
    {&sm80::kKernels, nullptr, sm80::plan_gemm_f64},      // f64
#endif
    {nullptr, nullptr, simt::plan_gemm},
};

constexpr Family<attile_gemm_grouped_problem> kGroupedList[] = {
#if defined(ATTILE_GPU_HAS_SM90)
    {&sm90::kKernels, nullptr, sm90::plan_gemm_grouped},  // f16, bf16
#endif
    {nullptr, nullptr, simt::plan_gemm_grouped},
};

}  // namespace

const Families<attile_gemm_problem> kGemmFamilies(kList);
const Families<attile_gemm_grouped_problem> kGemmGroupedFamilies(kGroupedList);

Planned<ResidueSums> plan_residue_sums(Device &device, const ResidueSums &problem) {
#if defined(ATTILE_GPU_HAS_SM90)
    if (device.runs(sm90::kKernels)) return sm90::plan_residues(device, problem);
#endif
    static_cast<void>(device), static_cast<void>(problem);
    return {};
}

const exact::TensorCoreSteps *exact::tensor_core_steps(Device &device) {
#if defined(ATTILE_GPU_HAS_SM80)
    static constexpr TensorCoreSteps kSteps = {residue_mma_kernel, join_pieces_kernel};
    if (device.runs(sm80::kKernels)) return &kSteps;
#endif
    static_cast<void>(device);
    return nullptr;
}

}  // namespace attile::gpu
