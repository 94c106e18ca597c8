// SPDX-License-Identifier: Apache-2.0
// What plans ask of a problem.
#include <algorithm>

#include "attention/plan.h"
#include "host/sizes.h"

namespace attile::gpu {

bool attention_has_several_types(const attile_attention_problem &p) {
    const auto is_like_q = [&](const attile_operand &x) { return x.dtype == p.q.dtype; };
    return attention_has_narrow_queries(p) || !is_like_q(p.k) || !is_like_q(p.v) ||
           (is_present(p.bias) && p.bias.dtype != ATTILE_F32 && !is_like_q(p.bias));
}

bool attention_is_narrow(const attile_operand &x) { return (x.dtype & 0xff) <= 8; }
bool attention_has_narrow_queries(const attile_attention_problem &p) { return attention_is_narrow(p.q); }
bool attention_has_narrow_keys(const attile_attention_problem &p) { return attention_is_narrow(p.k) || attention_is_narrow(p.v); }

double attention_visible_pairs(const attile_attention_problem &p) {
    const double rows = static_cast<double>(p.len_q), keys = static_cast<double>(p.len_k);
    // Offsets are data on the device; most often the last row is the last key's, as in a chunk of a prompt.
    const double shift = p.bottom_right != 0 || is_present(p.causal_offset) ? keys - rows : 0;
    const auto clamped_sum = [keys](double x) {
        if (x <= 0) return 0.0;
        return x <= keys ? x * (x + 1) / 2 : keys * (keys + 1) / 2 + (x - keys) * keys;
    };
    const auto up_to = [&](double c) { return clamped_sum(rows + c) - clamped_sum(c); };
    const double right = p.window_right < 0 ? rows * keys : up_to(shift + static_cast<double>(p.window_right));
    const double left = p.window_left < 0 ? 0 : up_to(shift - static_cast<double>(p.window_left) - 1);
    return static_cast<double>(p.batch) * static_cast<double>(p.heads_q) * std::max(0.0, right - left);
}

bool attention_changes_scores(const attile_attention_problem &p) {
    return is_present(p.bias) || is_present(p.allowed) || is_present(p.alibi_slopes) || attention_softcap(p) != 0;
}

bool attention_has_sparse_mask(const attile_attention_problem &p) { return is_present(p.block_mask) || is_present(p.tree_mask); }

bool attention_modifies_scores(const attile_attention_problem &p) { return attention_changes_scores(p) || attention_has_sparse_mask(p); }

int64_t attention_part_sums(const attile_attention_problem &p, const AttentionPlan &plan) {
    return is_present(p.bias) ? plan.part_rows : 0;
}

double attention_softcap(const attile_attention_problem &p) {
    constexpr double kLeast = 0x1p-30, kMost = 0x1p125;
    if (p.compute == ATTILE_F64 || p.softcap == 0) return p.softcap;
    return p.softcap > kMost ? 0 : std::max(p.softcap, kLeast);
}

}  // namespace attile::gpu
