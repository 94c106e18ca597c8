// SPDX-License-Identifier: Apache-2.0
// Some query rows of some heads, whose scores attention by products holds in the workspace at a time.
#pragma once

#include "attention/params.h"

namespace attile::gpu::simt {

// Batch entries, heads of K and V, query heads of each one's group (members) and rows: from the first, as many as the divider's divisor.
// Scores lie as [entry][head][member][row][pitch].
struct HeadSlice {
    int64_t pitch;  // Numbers from a row of scores to the next.
    int32_t first_entry, first_head, first_member, first_row;
    int32_t first_key, keys;  // That any of the rows sees.
    Divider heads, members, rows;
    uint32_t total;  // Rows in all.
};

}  // namespace attile::gpu::simt
