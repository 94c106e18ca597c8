// SPDX-License-Identifier: Apache-2.0
// Which attention problems the sm_80 kernel takes, and in which tile; and its launch. As gpu::Accelerator describes the functions.
#pragma once

#include "attention/mma/plan.h"

namespace attile::gpu::sm80 {

int32_t attention_query(Device &device, const attile_attention_problem &problem, attile_support &support, bool &taken, Declined &declined);
int32_t attention_run(Device &device, const attile_attention_problem &problem, Workspace &workspace, Stream stream);

}  // namespace attile::gpu::sm80
