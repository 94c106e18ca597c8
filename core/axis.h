// SPDX-License-Identifier: Apache-2.0
// The axis that reduce and softmax work along, and moving it last.
#ifndef ATTILE_CORE_AXIS_H
#define ATTILE_CORE_AXIS_H

#include <cstdint>

#include "status.h"
#include "tensor.h"

namespace attile::core {

// Axes of a tensor in the order of the problem: the axis in question last, the others before it in theirs, missing ones (-1) first.
struct AxisOrder {
    int32_t axis[4];
    int32_t chosen;  // the axis in question, counted from 0

    // 1 where the tensor has no axis.
    void shape(const View &view, int64_t extents[4]) const {
        for (int32_t i = 0; i < 4; ++i) extents[i] = axis[i] >= 0 ? view.shape(axis[i]) : 1;
    }
    attile_operand operand(const View &view) const { return make_operand(view, axis[0], axis[1], axis[2], axis[3]); }
};

inline int32_t order_axes(const Call &call, int32_t rank, int32_t axis, AxisOrder *order) {
    if (axis < -rank || axis >= rank) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: axis is %d; expected %d to %d, as x.rank is %d", call.operation, axis, -rank, rank - 1,
                    rank);
    }
    order->chosen = axis < 0 ? axis + rank : axis;
    int32_t to = 3;
    order->axis[to--] = order->chosen;
    for (int32_t from = rank - 1; from >= 0; --from) {
        if (from != order->chosen) order->axis[to--] = from;
    }
    for (; to >= 0; --to) order->axis[to] = -1;
    return ATTILE_OK;
}

// x's type, or f32 of f16 and bf16.
constexpr DtypeSet widened(DtypeSet type) { return type | ((type & (kF16 | kBf16)) != 0 ? kF32 : kNoDtype); }

}  // namespace attile::core

#endif
