// SPDX-License-Identifier: Apache-2.0
// quantize, and back, and repack: their families. Operands are reachable by the device.
#pragma once

#include "host/family.h"

namespace attile::gpu {

extern const Families<attile_quantize_problem> kQuantizeFamilies;
extern const Families<attile_repack_problem> kRepackFamilies;

}  // namespace attile::gpu
