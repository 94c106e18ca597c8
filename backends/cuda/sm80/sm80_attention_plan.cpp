// SPDX-License-Identifier: Apache-2.0
#include "sm80_attention_plan.h"

#include <iterator>

#include "plan/attention_run.h"
#include "simt_status.h"
#include "sm80_attention_table.h"

namespace attile::sm80 {
namespace {

using namespace tensor_core;

using KernelFn = AttentionKernel (*)();
// Scores under a mask alone, and scores with more to them.
constexpr KernelFn kKernelsBF16[] = {attention_bf16_cols64, attention_bf16_cols128, attention_bf16_cols256};
constexpr KernelFn kKernelsF16[] = {attention_f16_cols64, attention_f16_cols128, attention_f16_cols256};
constexpr KernelFn kModifiedBF16[] = {attention_bf16_cols64_modified, attention_bf16_cols128_modified, attention_bf16_cols256_modified};
constexpr KernelFn kModifiedF16[] = {attention_f16_cols64_modified, attention_f16_cols128_modified, attention_f16_cols256_modified};
static_assert(std::size(kKernelsBF16) == std::size(kModifiedBF16) && std::size(kKernelsF16) == std::size(kModifiedF16) &&
              std::size(kKernelsBF16) == std::size(kKernelsF16));

AttentionChoice choose_attention(simt::Device &device, const attile_attention_problem &p) {
    const AttentionChoice choice = attention_examine(p);
    if (!choice.taken) return choice;
    const bool modifies = attention_modifies(p), is_f16 = p.q.dtype == ATTILE_F16;
    const KernelFn *const kernels = modifies ? (is_f16 ? kModifiedF16 : kModifiedBF16) : is_f16 ? kKernelsF16 : kKernelsBF16;
    return attention_cut(device, p, narrowest_tile(kernels, std::size(kKernelsBF16), p));
}

}  // namespace

int32_t attention_query(simt::Device &device, const attile_attention_problem &problem, attile_support &support, bool &taken,
                        simt::Declined &declined) {
    const AttentionChoice choice = choose_attention(device, problem);
    taken = choice.taken;
    declined = choice.declined;
    if (taken) simt::attention_report(device, problem, choice.plan, support);
    return ATTILE_OK;
}

int32_t attention_run(simt::Device &device, const attile_attention_problem &p, simt::Workspace &workspace, simt::Stream stream) {
    const AttentionChoice choice = choose_attention(device, p);
    if (!choice.taken) return simt::fail(ATTILE_ERROR_INTERNAL, "attention: %s", choice.declined.text);
    const simt::AttentionPlan &plan = choice.plan;
    AttentionTask task = {};
    int32_t status = attention_task(p, choice, device.properties().l2_bytes * 5 / 8, workspace, task);
    if (status != ATTILE_OK) return status;
    simt::Dim3 grid, block;
    grid.x = static_cast<uint32_t>(choice.tiles);
    block.x = static_cast<uint32_t>(plan.threads);
    void *arguments[] = {&task};
    status = device.launch(plan.kernel, grid, block, plan.shared, arguments, stream);
    if (status != ATTILE_OK || plan.splits == 1) return status;
    return simt::attention_combine(device, task.p, p, stream);
}

}  // namespace attile::sm80
