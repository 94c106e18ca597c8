// SPDX-License-Identifier: Apache-2.0
#include "attention/sm90/tf32x3_plan.h"

#include <iterator>

#include "attention/sm90/tf32x3_instances.h"

namespace attile::gpu::sm90 {
namespace {

constexpr int64_t kLoaded = 4;  // Columns that are loaded at once.

// A choice that is not taken says nothing: sm80 is asked next, and says why.
AttentionChoice choose(Device &device, const attile_attention_problem &p) {
    if (attention_tf32x3_refused(device, p).text[0] != '\0') return {};
    const AttentionChoice choice = attention_examine(p, true);
    if (!choice.taken || attention_modifies(p) || p.head_dim % kLoaded != 0) return {};
    const AttentionTile tile = narrowest_tile(kAttentionTf32x3PlainF32, std::size(kAttentionTf32x3PlainF32), p);
    return tile.kernel != nullptr ? attention_cut(device, p, tile) : AttentionChoice();
}

}  // namespace

Planned<attile_attention_problem> plan_attention_tf32x3(Device &device, const attile_attention_problem &problem) {
    if (problem.q.dtype != ATTILE_F32) return {};
    return attention_planned(problem, choose(device, problem));
}

}  // namespace attile::gpu::sm90
