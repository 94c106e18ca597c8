// SPDX-License-Identifier: Apache-2.0
// What the launches of all families' plans have in common.
#include <algorithm>
#include <cmath>

#include "attention/plan.h"
#include "attention/run.h"
#include "attention_backward/run.h"

namespace attile::gpu {

AttentionBackwardParams attention_backward_params(const attile_attention_backward_problem &problem, const AttentionBackwardPlan &plan) {
    const attile_attention_problem &p = *problem.forward;
    AttentionBackwardParams to = {};
    AttentionPlan uncut;
    uncut.row_blocks = 1;
    to.forward = attention_params(p, uncut);
    to.original_q = to.forward.q;
    to.original_k = to.forward.k;
    to.original_v = to.forward.v;
    to.original_dout = to.dout = attention_operand(problem.dout, p.head_dim_v);
    to.dlse = attention_operand(problem.dlse, 1);
    to.dq = attention_operand(problem.dq, p.head_dim);
    to.dk = attention_operand(problem.dk, p.head_dim);
    to.dv = attention_operand(problem.dv, p.head_dim_v);
    to.dbias = attention_operand(problem.dbias, 1);
    to.dsinks = attention_operand(problem.dsinks, 1);
    std::copy(problem.bias_extent, problem.bias_extent + 4, to.bias_extent);
    to.scale = static_cast<float>(p.scale);
    to.scale_low = std::isfinite(to.scale) ? static_cast<float>(p.scale - static_cast<double>(to.scale)) : 0.0f;
    to.softcap = static_cast<float>(to.forward.softcap);
    to.inverse_softcap = to.softcap != 0 ? 1 / to.softcap : 0.0f;
    to.heads_kv = Divider(std::max<int64_t>(p.heads_kv, 1));
    to.group_parts = Divider(plan.group_parts);
    to.row_tiles = Divider(std::max<int64_t>(plan.row_tiles, 1));
    to.key_blocks = Divider(std::max<int64_t>(plan.key_blocks, 1));
    to.splits = Divider(plan.splits);
    to.end_block = static_cast<int32_t>(plan.key_blocks);
    to.parts_q = plan.products.name != nullptr ? 1 : to.end_block;
    to.scores_pitch = static_cast<int32_t>(plan.key_chunk * plan.keys);
    to.block_rows = plan.rows;
    to.block_keys = plan.keys;
    to.depth = plan.depth;
    to.batch = static_cast<int32_t>(p.batch);
    to.split_units = static_cast<int32_t>(plan.split_units);
    to.keys_first = plan.keys_first;
    to.rows_allotted = static_cast<int32_t>(plan.row_tiles * plan.rows);
    return to;
}

void attention_backward_count(const attile_attention_backward_problem &problem, attile_support &support) {
    const attile_attention_problem &p = *problem.forward;
    // Scores again, dp, dv, dq and dk; each operand and gradient once.
    const double d = static_cast<double>(p.head_dim), dv = static_cast<double>(p.head_dim_v);
    support.flops = 2 * attention_visible_pairs(p) * (3 * d + 2 * dv);
    support.bytes = 2 * attention_bytes(p);
}

}  // namespace attile::gpu
