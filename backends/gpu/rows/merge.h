// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "host/family.h"

namespace attile::gpu {

namespace simt {
Planned<attile_attention_merge_problem> plan_merge(Device &device, const attile_attention_merge_problem &problem);
}

}  // namespace attile::gpu
