// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "host/family.h"

namespace attile::gpu {

namespace simt {
Planned<attile_softmax_problem> plan_softmax(Device &device, const attile_softmax_problem &problem);
}

}  // namespace attile::gpu
