// SPDX-License-Identifier: Apache-2.0
// What SIMT's plans and those of other families have in common.
#pragma once

#include "attention/plan.h"

namespace attile::gpu {

// An operand in the kernels' words; absent ones have no data.
AttentionOperand attention_operand(const attile_operand &operand, int64_t cols);
AttentionScales attention_scales(const attile_attention_problem &problem, const attile_operand &scale, int64_t group);
// Do these scales differ from key to key, or from page to page?
bool attention_scales_by_key(const attile_attention_problem &problem, const attile_operand &scale);

// Which rows of an operand to rewrite densely: `count` (entry, head) pairs of `rows` rows from `first` on, entry * heads + head.
struct DenseCut {
    int64_t heads, rows, cols, padded_cols;
    int64_t first, count;
    bool packed;                            // All entries share the rows.
    const attile_attention_problem *paged;  // Whose block table says where rows are; null: they are where they seem.
    AttentionScales scales = {};            // Of numbers of 8 bits.
};
// Rewrites them, and points the kernel's operand at the copy, so that entries and heads count from the start of the problem.
int32_t attention_densify(Device &device, const attile_operand &from, const DenseCut &cut, float *copy, AttentionOperand &operand,
                          Stream stream);

// The problem in the kernels' words, cut as the plan says.
AttentionParams attention_params(const attile_attention_problem &problem, const AttentionPlan &plan);

// Bytes of q, k, v, their scales, o and lse, each once.
double attention_bytes(const attile_attention_problem &problem);

// What query answers about a plan that can be run.
void attention_report(Device &device, const attile_attention_problem &problem, const AttentionPlan &plan, attile_support &support);

// The partial results of splits, put together: params.part_o and params.part_lse to params.o and params.lse.
int32_t attention_combine(Device &device, const AttentionParams &params, const attile_attention_problem &problem, Stream stream);

}  // namespace attile::gpu
