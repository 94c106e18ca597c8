// SPDX-License-Identifier: Apache-2.0
// attention of float64 and float32 with EXACT_PRODUCTS, on every device; without the flag it declines.
#pragma once

#include "host/family.h"

namespace attile::gpu::exact {

Planned<attile_attention_problem> plan_attention(Device &device, const attile_attention_problem &problem);

}  // namespace attile::gpu::exact
