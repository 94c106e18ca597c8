// SPDX-License-Identifier: Apache-2.0
// attention: its families. Operands are reachable by the device.
#pragma once

#include "host/family.h"

namespace attile::gpu {

extern const Families<attile_attention_problem> kAttentionFamilies;

}  // namespace attile::gpu
