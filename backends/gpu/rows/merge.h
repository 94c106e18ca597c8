// SPDX-License-Identifier: Apache-2.0
// What the plans of merge and of its gradients share.
#pragma once

#include <attile/attile_backend.h>

#include "vec.h"

namespace attile::gpu {

inline int64_t bytes_of(int32_t dtype) { return (dtype & 0xff) / 8; }

// Whether every row of an operand begins at a multiple of `bytes`, d being contiguous.
inline bool rows_aligned(const attile_operand &operand, int64_t head_dim, int64_t bytes) {
    const int64_t size = bytes_of(operand.dtype);
    if (!is_aligned(operand.data, static_cast<int>(bytes)) || (head_dim > 1 && operand.stride[3] != 1)) return false;
    for (int axis = 0; axis < 3; ++axis) {
        if (operand.stride[axis] * size % bytes != 0) return false;
    }
    return true;
}

}  // namespace attile::gpu
