// SPDX-License-Identifier: Apache-2.0
// Factors of blocks of A or B, or zero points of B, as kernels are told them.
#pragma once

#include <cstdint>

#include "divider.h"

namespace attile::gpu {

// f32; data is null where all are 1, or 0. Strides are of blocks, whose extents the divisors are.
struct BlockScales {
    const float *data;
    int64_t batch_x, batch_y, outer, depth;
    Divider outer_group, depth_group;
};

}  // namespace attile::gpu
