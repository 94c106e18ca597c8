// SPDX-License-Identifier: Apache-2.0
#include "sm80_attention_plan.h"

#include <iterator>

#include "plan/attention_run.h"
#include "simt_status.h"
#include "sm80_accelerator.h"
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
// float32 by split TF32.
constexpr KernelFn kKernelsF32[] = {attention_f32_cols64, attention_f32_cols128, attention_f32_cols256};
constexpr KernelFn kModifiedF32[] = {attention_f32_cols64_modified, attention_f32_cols128_modified, attention_f32_cols256_modified};
static_assert(std::size(kKernelsBF16) == std::size(kModifiedBF16) && std::size(kKernelsF16) == std::size(kModifiedF16) &&
              std::size(kKernelsBF16) == std::size(kKernelsF16) && std::size(kKernelsBF16) == std::size(kKernelsF32) &&
              std::size(kKernelsBF16) == std::size(kModifiedF32));

constexpr int64_t kStreamedRows = 16;  // Of a key head: up to so many simt streams float32 keys for.

const KernelFn *kernels_of(int32_t dtype, bool modified) {
    switch (dtype) {
        case ATTILE_BF16:
            return modified ? kModifiedBF16 : kKernelsBF16;
        case ATTILE_F16:
            return modified ? kModifiedF16 : kKernelsF16;
        default:
            return modified ? kModifiedF32 : kKernelsF32;
    }
}

AttentionChoice choose_attention(simt::Device &device, const attile_attention_problem &p) {
    if (p.q.dtype == ATTILE_F32) {
        if (const char *const why = why_no_split(device.properties().capability, p.launch.flags)) return attention_declined("%s", why);
        const bool is_invariant = (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0;
        if (!is_invariant && p.heads_kv > 0 && p.len_q * (p.heads_q / p.heads_kv) <= kStreamedRows)
            return attention_declined("so few rows wait for memory, not for arithmetic");
    }
    const AttentionChoice choice = attention_examine(p, true);
    if (!choice.taken) return choice;
    const KernelFn *const kernels = kernels_of(p.q.dtype, attention_modifies(p));
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
