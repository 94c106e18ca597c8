// SPDX-License-Identifier: Apache-2.0
// Attention whose q, k and v are all e4m3, by Hopper's products of 8-bit floats, where FAST_ACCUMULATION permits their sums.
#pragma once

#include <attile/attile_backend.h>

#include "host/family.h"

namespace attile::gpu::sm90 {

Planned<attile_attention_problem> plan_attention_bytes(Device &device, const attile_attention_problem &problem);

}  // namespace attile::gpu::sm90
