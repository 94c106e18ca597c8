// SPDX-License-Identifier: Apache-2.0
// Which problems the Hopper kernels of attention's gradients take, and their launches. As gpu::Accelerator describes the functions.
#pragma once

#include "host/accelerator.h"

namespace attile::gpu::sm90 {

int32_t attention_backward_query(Device &device, const attile_attention_backward_problem &problem, attile_support &support, bool &taken,
                                 Declined &declined);
int32_t attention_backward_run(Device &device, const attile_attention_backward_problem &problem, Workspace &workspace, Stream stream);

}  // namespace attile::gpu::sm90
