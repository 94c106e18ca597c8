// SPDX-License-Identifier: Apache-2.0
// Factors of blocks, as kernels read them.
#pragma once

#include "gemm/block_scales.h"
#include "numeric.h"

namespace attile::gpu {

ATTILE_LANE_FN const float *scales_of_entry(const BlockScales &scales, int64_t batch_x, int64_t batch_y) {
    return scales.data != nullptr ? scales.data + batch_x * scales.batch_x + batch_y * scales.batch_y : nullptr;
}
// Of an element in a batch entry's scales.
ATTILE_LANE_FN float scale_at(const BlockScales &scales, const float *entry, int64_t outer, int64_t depth) {
    return entry[quotient(static_cast<uint32_t>(outer), scales.outer_group) * scales.outer +
                 quotient(static_cast<uint32_t>(depth), scales.depth_group) * scales.depth];
}

}  // namespace attile::gpu
