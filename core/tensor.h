// SPDX-License-Identifier: Apache-2.0
// Validation of one tensor by itself, and its translation into an operand of the backend contract.
#ifndef ATTILE_CORE_TENSOR_H
#define ATTILE_CORE_TENSOR_H

#include <attile/attile_backend.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "message.h"

namespace attile::core {

// A tensor that passed its checks, with the bytes it spans.
struct View {
    const attile_tensor *tensor = nullptr;  // nullptr: absent
    ArgName name;
    const char *prefix = "";  // as in Call
    bool empty = true;        // no element; absent tensors too
    bool located = false;     // its address is known: in a query it may not be
    uintptr_t low = 0;        // first byte, whichever way the strides go
    uintptr_t high = 0;       // past the last byte

    bool present() const { return tensor != nullptr; }
    int64_t shape(int32_t axis) const { return tensor->shape[axis]; }
    int32_t rank() const { return tensor->rank; }
    int32_t dtype() const { return tensor->dtype; }
};

// What an argument takes.
struct TensorRule {
    DtypeSet dtypes;
    int32_t rank_min, rank_max;
    bool output = false;
};

// Whether a number is finite where operands of this type are computed: float32 cannot hold 1e39, which would make NaN of 0.
inline bool is_finite_in(int32_t dtype, double value) {
    constexpr double kLargest = static_cast<double>(std::numeric_limits<float>::max());
    return dtype == ATTILE_F64 ? std::isfinite(value) : std::abs(value) <= kLargest;
}
// Whether a factor is 0 there: float32 holds no 1e-50, and 0 times infinity would be NaN of what is not to be read.
inline bool is_zero_in(int32_t dtype, double value) { return dtype == ATTILE_F64 ? value == 0.0 : static_cast<float>(value) == 0.0f; }
// What is expected of a finite one.
inline const char *finite_in_text(int32_t dtype) { return dtype == ATTILE_F64 ? "a finite number" : "a finite number of float32"; }

// An optional tensor that was not given.
inline bool is_absent(const attile_tensor &tensor) { return tensor.dtype == 0 && tensor.rank == 0 && tensor.data == nullptr; }

// Whether a tensor has no element. Its strides mean nothing: attile_tensor_init() gives 0 beside an extent of 0.
inline bool is_empty(const attile_tensor &tensor) {
    return std::find(tensor.shape, tensor.shape + tensor.rank, 0) != tensor.shape + tensor.rank;
}

// A tensor of 4 bits, which has passed its checks, as one of its bytes; any other as it is.
attile_tensor in_bytes(const attile_tensor &tensor);

// The bytes that a tensor with elements spans: those before its first element, and those from there on. False where extents times strides
// exceed 63 bits. The stride of an extent of 1 is not looked at: nothing is stepped over.
bool measure_tensor(const attile_tensor &tensor, int64_t *below, int64_t *above);

// Checks data type, rank, extents, strides, data pointer and, for outputs, that no two elements share memory; fills `view`. A tensor
// that is absent is a failure: ATTILE_ERROR_NULL_ARGUMENT.
int32_t check_tensor(const Call &call, ArgName name, const attile_tensor &tensor, const TensorRule &rule, View *view);

// The same for a tensor that may be absent.
inline int32_t check_optional(const Call &call, ArgName name, const attile_tensor &tensor, const TensorRule &rule, View *view) {
    return is_absent(tensor) ? ATTILE_OK : check_tensor(call, name, tensor, rule, view);
}

// Fails unless shape[axis] is `extent`; `label` is the axis' name and `origin` what `extent` is: "q.shape[1] (heads_q)".
int32_t check_extent(const Call &call, const View &view, int32_t axis, const char *label, int64_t extent, const char *origin);

// Checks that `view` fits [.., extents] from the last axis, each extent equal or 1; its operand, if wanted, has the axes of `extents`.
// `target` names the shape that is broadcast to.
int32_t check_broadcast(const Call &call, const View &view, const int64_t *extents, int32_t axes, const char *target);

// The operand with axes taken from the tensor's: axis[i] is the tensor's axis that becomes axis i, or -1 for none. An absent view gives an
// absent operand.
attile_operand make_operand(const View &view, int32_t axis0, int32_t axis1 = -1, int32_t axis2 = -1, int32_t axis3 = -1);

// The operand of a tensor whose last axis is axis `last` of the operand, the others before it in order; missing ones are broadcast.
attile_operand make_aligned_operand(const View &view, int32_t last = 3);

}  // namespace attile::core

#endif
