// SPDX-License-Identifier: Apache-2.0
#include "attention/sm80/plan.h"

#include <iterator>

#include "attention/sm80/table.h"

namespace attile::gpu::sm80 {
namespace {

using namespace mma;

using KernelFn = AttentionKernel (*)();
// Scores under a mask alone, and scores with more to them.
constexpr KernelFn kKernelsBF16[] = {attention_bf16_cols64, attention_bf16_cols128, attention_bf16_cols256};
constexpr KernelFn kKernelsF16[] = {attention_f16_cols64, attention_f16_cols128, attention_f16_cols256};
constexpr KernelFn kModifiedBF16[] = {attention_bf16_cols64_modified, attention_bf16_cols128_modified, attention_bf16_cols256_modified};
constexpr KernelFn kModifiedF16[] = {attention_f16_cols64_modified, attention_f16_cols128_modified, attention_f16_cols256_modified};
// float32 by tf32x3.
constexpr KernelFn kKernelsF32[] = {attention_f32_cols64, attention_f32_cols128, attention_f32_cols256};
constexpr KernelFn kModifiedF32[] = {attention_f32_cols64_modified, attention_f32_cols128_modified, attention_f32_cols256_modified};
static_assert(std::size(kKernelsBF16) == std::size(kModifiedBF16) && std::size(kKernelsF16) == std::size(kModifiedF16) &&
              std::size(kKernelsBF16) == std::size(kKernelsF16) && std::size(kKernelsBF16) == std::size(kKernelsF32) &&
              std::size(kKernelsBF16) == std::size(kModifiedF32));

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

AttentionChoice choose_attention(Device &device, const attile_attention_problem &p) {
    if (p.q.dtype == ATTILE_F32) {
        const Declined refused = attention_tf32x3_refused(device, p);
        if (refused.text[0] != '\0') return attention_declined("%s", refused.text);
    }
    const AttentionChoice choice = attention_examine(p, true);
    if (!choice.taken) return choice;
    const KernelFn *const kernels = kernels_of(p.q.dtype, attention_modifies(p));
    AttentionChoice cut = attention_cut(device, p, narrowest_tile(kernels, std::size(kKernelsBF16), p));
    // Known of Hopper alone, whose tensor cores do twice as much by instructions of their own: of their peak, or for few rows of the
    // memory's.
    if (p.q.dtype != ATTILE_F32 && !attention_modifies(p) && device.properties().capability == 90)
        cut.plan.share = p.len_q * (p.heads_q / p.heads_kv) <= 16 ? 0.65 : 0.34;
    return cut;
}

}  // namespace

Planned<attile_attention_problem> plan_attention(Device &device, const attile_attention_problem &problem) {
    return attention_planned(problem, choose_attention(device, problem));
}

}  // namespace attile::gpu::sm80
