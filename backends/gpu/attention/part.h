// SPDX-License-Identifier: Apache-2.0
// Some batch entries and some key heads, with their query heads, as a problem of their own: for calls that are taken in parts.
#pragma once

#include <attile/attile_backend.h>

namespace attile::gpu {

struct AttentionPart {
    int64_t entry = 0, entries = 0;  // The first, and how many.
    int64_t head = 0, heads = 0;     // Of K and V.
};

// The operand then begins at another batch entry and head; null pointers stay null.
void move_operand(attile_operand &operand, int64_t entry, int64_t head);

// Operands begin where the part's do; strides, and what packed sequences and pages share, stay.
attile_attention_problem attention_part(const attile_attention_problem &problem, const AttentionPart &part);

}  // namespace attile::gpu
