// SPDX-License-Identifier: Apache-2.0
// Which attention problems the Hopper kernel takes, in which tile, cut how; and its launch.
#pragma once

#include "attention/mma/plan.h"
#include "sm90/tensor_map.h"

namespace attile::sm90 {

// A plan of the Hopper kernel in simt's terms, or the reason why it declines.
struct Sm90AttentionChoice : tensor_core::AttentionChoice {
    int32_t grid = 0;
    int32_t page_rows = 0;  // Paged: keys that are copied at a time.
    bool has_counter = false;
};

Sm90AttentionChoice choose_attention(simt::Device &device, const attile_attention_problem &problem);

int32_t attention_query(simt::Device &device, const attile_attention_problem &problem, attile_support &support, bool &taken,
                        simt::Declined &declined);
int32_t attention_run(simt::Device &device, const TensorMaps &maps, const attile_attention_problem &problem, simt::Workspace &workspace,
                      simt::Stream stream);

}  // namespace attile::sm90
