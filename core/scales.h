// SPDX-License-Identifier: Apache-2.0
// What operands of 8 bits are asked: their scales, and sums of products that stay integers.
#ifndef ATTILE_CORE_SCALES_H
#define ATTILE_CORE_SCALES_H

#include <attile/attile_backend.h>

#include <cstdint>

#include "message.h"
#include "tensor.h"

namespace attile::core {

// Numbers along an axis of `extent` that share a scale; 0: that many scales do not divide it. One for all, or one for each, or, of an axis
// that may be cut, one for 32, 64 or 128.
int64_t scale_group(int64_t scales, int64_t extent, bool may_be_cut);

// Products of two int8 that any int32 holds the sum of: 2^31 - 1 over 128 * 128, without rest.
inline constexpr int64_t kMostExactDepth = 131071;

// An output of i32 is the exact sums: nothing else can be asked of it. The operands' types have been checked.
int32_t check_integer_sums(const Call &call, const attile_gemm_args &args);

// The scales of `operand` by themselves; absent ones pass. Types and ranks: those of an operand that may have scales, and of scales.
int32_t check_scale(const Call &call, const char *name, const attile_tensor &tensor, const View &operand, const TensorRule &scaled,
                    View *view);

// Two neighbours along the last axis share a byte, if the numbers are of 4 bits.
int32_t check_last_axis(const Call &call, const View &numbers);

// What b must be if it is of 4 bits, and b_zero, of the shape of the scales.
int32_t check_four_bits(const Call &call, const attile_tensor &b_zero, const View &b, const View &scale, View *zero);

// One of the last two axes of the numbers that scales belong to.
struct ScaledAxis {
    const char *label;
    int64_t extent;
    bool is_depth;
};

// Whether the shape of scales divides the numbers into blocks; `group` becomes the blocks' extents.
int32_t check_blocks(const Call &call, const View &scale, const ScaledAxis &first, const ScaledAxis &second, const int64_t *batch,
                     int64_t *group);

}  // namespace attile::core

#endif
