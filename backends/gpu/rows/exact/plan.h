// SPDX-License-Identifier: Apache-2.0
// reduce, softmax and merge with EXACT_PRODUCTS, on every device; without the flag they decline.
#pragma once

#include "host/family.h"

namespace attile::gpu::exact {

Planned<attile_reduce_problem> plan_reduce(Device &device, const attile_reduce_problem &problem);
Planned<attile_softmax_problem> plan_softmax(Device &device, const attile_softmax_problem &problem);
Planned<attile_attention_merge_problem> plan_merge(Device &device, const attile_attention_merge_problem &problem);

}  // namespace attile::gpu::exact
