// SPDX-License-Identifier: Apache-2.0
// Quantisation and back, and repacking, by SIMT, on every device. The workspace does not depend on alignment.
#pragma once

#include "host/family.h"

namespace attile::gpu::simt {

Planned<attile_quantize_problem> plan_quantize(Device &device, const attile_quantize_problem &problem);
Planned<attile_repack_problem> plan_repack(Device &device, const attile_repack_problem &problem);

}  // namespace attile::gpu::simt
