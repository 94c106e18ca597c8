// SPDX-License-Identifier: Apache-2.0
#include "attention/part.h"

#include <initializer_list>

#include "host/sizes.h"

namespace attile::gpu {

void move_operand(attile_operand &x, int64_t entry, int64_t head) {
    if (x.data == nullptr) return;
    // Of numbers of 4 bits one axis has stride 1, along the head's columns, and the others' are even.
    x.data = static_cast<char *>(x.data) + (entry * x.stride[0] + head * x.stride[1]) * dtype_bits(x.dtype) / 8;
}

attile_attention_problem attention_part(const attile_attention_problem &problem, const AttentionPart &part) {
    attile_attention_problem p = problem;
    const int64_t group = p.heads_q / p.heads_kv, head_q = part.head * group;
    p.batch = part.entries;
    p.heads_kv = part.heads;
    p.heads_q = part.heads * group;
    for (attile_operand *x :
         {&p.q, &p.o, &p.lse, &p.bias, &p.allowed, &p.alibi_slopes, &p.sinks, &p.block_mask, &p.tree_mask, &p.q_scale, &p.o_scale})
        move_operand(*x, part.entry, head_q);
    const int64_t entry_k = is_present(p.block_table) ? 0 : part.entry;  // Pages are all entries'.
    for (attile_operand *x : {&p.k, &p.v, &p.k_scale, &p.v_scale}) move_operand(*x, entry_k, part.head);
    for (attile_operand *x : {&p.key_lengths, &p.key_starts, &p.causal_offset, &p.cu_len_q, &p.cu_len_k, &p.block_table})
        move_operand(*x, part.entry, 0);
    return p;
}

}  // namespace attile::gpu
