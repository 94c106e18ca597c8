// SPDX-License-Identifier: Apache-2.0
// What plans for numbers of 8 and 4 bits ask of operands, whichever family they are of.
#pragma once

#include <attile/attile_backend.h>

#include <algorithm>

#include "gemm/block_scales.h"
#include "gemm/params.h"
#include "host/sizes.h"

namespace attile::gpu {

inline constexpr int64_t kMostExtent = 0x7fffffff - 512;  // Kernels divide in 32 bits.

inline bool is_narrow(int32_t dtype) { return dtype != 0 && (dtype & 0xff) <= 8; }

// BlockScales or zero points by the axes of their operand; where the address is not known yet, there is one all the same.
inline BlockScales scales_of(const attile_operand &x, int outer, int depth, int64_t outer_group, int64_t depth_group) {
    BlockScales scales = {};
    if (!is_present(x)) return scales;
    scales.data = x.data != nullptr ? static_cast<const float *>(x.data) : reinterpret_cast<const float *>(sizeof(float));
    scales.batch_x = x.stride[0];
    scales.batch_y = x.stride[1];
    scales.outer = x.stride[outer];
    scales.depth = x.stride[depth];
    scales.outer_group = Divider(std::max<int64_t>(outer_group, 1));
    scales.depth_group = Divider(std::max<int64_t>(depth_group, 1));
    return scales;
}

// C, D or bias.
inline GemmOutput output_of(const attile_operand &x) { return {x.data, x.stride[0], x.stride[1], x.stride[2], x.stride[3], x.dtype, 0}; }

}  // namespace attile::gpu
