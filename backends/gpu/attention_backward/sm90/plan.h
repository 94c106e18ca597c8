// SPDX-License-Identifier: Apache-2.0
// Which problems the sm_90a kernels of attention's gradients take, and in which tiles; and their launches.
#pragma once

#include "host/family.h"

namespace attile::gpu::sm90 {

Planned<attile_attention_backward_problem> plan_attention_backward(Device &device, const attile_attention_backward_problem &problem);

}  // namespace attile::gpu::sm90
