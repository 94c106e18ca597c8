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

// Scales or zero points by the axes of their operand; where the address is not known yet, there is one all the same.
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

// What kernels are told of few rows times B of 8 or 4 bits, but for A, whose rows each reads in its own way, and how the work is shared
// out.
template <class Params>
void set_few_rows(Params &params, const attile_gemm_problem &p) {
    const auto bytes = [&](int64_t numbers) { return numbers * (p.b.dtype & 0xff) / 8; };
    params.b_batch_x = bytes(p.b.stride[0]);
    params.b_batch_y = bytes(p.b.stride[1]);
    params.b_row = bytes(p.b.stride[3]);
    params.m = p.m;
    params.n = p.n;
    params.k = p.k;
    if (p.beta != 0) params.c = output_of(p.c);
    params.d = output_of(p.d);
    params.bias = output_of(p.bias);
    params.alpha = static_cast<float>(p.alpha);
    params.beta = static_cast<float>(p.beta);
    params.activation = p.activation;
    params.batch_y = Divider(p.batch[1]);
    params.scale = scales_of(p.b_scale, 3, 2, p.b_group[1], p.b_group[0]);
    params.zero = scales_of(p.b_zero, 3, 2, p.b_group[1], p.b_group[0]);
    const bool changes = params.scale.data != nullptr && params.scale.depth_group.divisor < p.k;
    params.by_group = changes || params.zero.data != nullptr ? 1 : 0;
}

}  // namespace attile::gpu
