// SPDX-License-Identifier: Apache-2.0
// Which attention problems the sm_80 kernel takes, and in which tile; and its launch. As simt::Accelerator describes the functions.
#pragma once

#include "attention/mma/plan.h"

namespace attile::sm80 {

int32_t attention_query(simt::Device &device, const attile_attention_problem &problem, attile_support &support, bool &taken,
                        simt::Declined &declined);
int32_t attention_run(simt::Device &device, const attile_attention_problem &problem, simt::Workspace &workspace, simt::Stream stream);

}  // namespace attile::sm80
