// SPDX-License-Identifier: Apache-2.0
// Which attention problems the Hopper kernel takes, in which tile, cut how; and its launch.
#pragma once

#include "attention/mma/plan.h"

namespace attile::gpu::sm90 {

// A plan of the Hopper kernel in the operation's terms, or the reason why it declines.
struct Sm90AttentionChoice : mma::AttentionChoice {
    int32_t grid = 0;
    int32_t page_rows = 0;  // Paged: keys that are copied at a time.
    bool has_counter = false;
    bool has_strips = false;  // The producer loads a bias or a mask, too.
};

// padded: rows of a bias or mask may be read up to a multiple of 16 bytes.
Sm90AttentionChoice choose_attention(Device &device, const attile_attention_problem &problem, bool padded = false);

Planned<attile_attention_problem> plan_attention(Device &device, const attile_attention_problem &problem);  // Of f16 and bf16.

}  // namespace attile::gpu::sm90
