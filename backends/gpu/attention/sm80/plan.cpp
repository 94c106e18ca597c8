// SPDX-License-Identifier: Apache-2.0
#include "attention/sm80/plan.h"

#include <cstddef>
#include <iterator>

#include "attention/sm80/instances.h"
#include "attention/sm80/tf32x3_instances.h"

namespace attile::gpu::sm80 {
namespace {

using namespace mma;

constexpr std::size_t kTiles = std::size(kAttentionPlainBF16);
static_assert(std::size(kAttentionModifiedBF16) == kTiles && std::size(kAttentionTf32x3PlainF32) == kTiles &&
              std::size(kAttentionTf32x3ModifiedF32) == kTiles);

const AttentionFn *kernels_of(int32_t dtype, bool modified) {
    switch (dtype) {
        case ATTILE_BF16:
            return modified ? kAttentionModifiedBF16 : kAttentionPlainBF16;
        case ATTILE_F16:
            return modified ? kAttentionModifiedF16 : kAttentionPlainF16;
        default:
            return modified ? kAttentionTf32x3ModifiedF32 : kAttentionTf32x3PlainF32;
    }
}

AttentionChoice choose_attention(Device &device, const attile_attention_problem &p) {
    if (p.q.dtype == ATTILE_F32) {
        const Declined refused = attention_tf32x3_refused(device, p);
        if (refused.text[0] != '\0') return attention_declined("%s", refused.text);
    }
    const AttentionChoice choice = attention_examine(p, true);
    if (!choice.taken) return choice;
    const AttentionFn *const kernels = kernels_of(p.q.dtype, attention_modifies(p));
    AttentionChoice cut = attention_cut(device, p, narrowest_tile(kernels, kTiles, p));
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
