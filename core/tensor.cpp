// SPDX-License-Identifier: Apache-2.0
// attile_tensor_init and the checks of a tensor by itself.
#include "tensor.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "status.h"

namespace attile::core {
namespace {

long long printable(int64_t value) { return static_cast<long long>(value); }

// One axis of an output: distance between neighbours and how many there are, both positive.
struct Axis {
    int64_t stride;
    int64_t extent;
};

// Whether no two index tuples of an output meet in one element. Spans were checked against overflow before.
bool strides_are_injective(const attile_tensor &tensor) {
    Axis axes[4];
    int32_t count = 0;
    for (int32_t i = 0; i < tensor.rank; ++i) {
        if (tensor.shape[i] == 1) continue;
        const Axis axis = {tensor.stride[i] < 0 ? -tensor.stride[i] : tensor.stride[i], tensor.shape[i]};
        if (axis.stride == 0) return false;
        // Insertion by stride: four axes at most.
        int32_t at = count++;
        for (; at > 0 && axes[at - 1].stride > axis.stride; --at) axes[at] = axes[at - 1];
        axes[at] = axis;
    }
    // The usual case: each axis steps over everything that the finer ones reach.
    int64_t reach = 0;
    bool nested = true;
    for (int32_t i = 0; i < count; ++i) {
        nested = nested && axes[i].stride > reach;
        reach += axes[i].stride * (axes[i].extent - 1);
    }
    if (nested) return true;
    // Axes that continue each other count as one.
    int32_t merged = 1;
    for (int32_t i = 1; i < count; ++i) {
        Axis &last = axes[merged - 1];
        if (axes[i].stride == last.stride * last.extent) {
            last.extent *= axes[i].extent;
        } else {
            axes[merged++] = axes[i];
        }
    }
    // Two axes collide first where their strides' least common multiple is reached by both. More than two that interleave are refused: no
    // layout in use looks like that, and the general question is a knapsack.
    if (merged != 2) return merged < 2;
    const int64_t divisor = std::gcd(axes[0].stride, axes[1].stride);
    return axes[1].stride / divisor >= axes[0].extent || axes[0].stride / divisor >= axes[1].extent;
}

}  // namespace

attile_tensor in_bytes(const attile_tensor &tensor) {
    attile_tensor bytes = tensor;
    if (!is_four_bits(tensor.dtype)) return bytes;
    bytes.dtype = ATTILE_U8;
    for (int32_t i = 0; i < tensor.rank; ++i) {
        if (tensor.shape[i] == 1) continue;
        if (tensor.stride[i] == 1) bytes.shape[i] /= 2;
        if (tensor.stride[i] != 1) bytes.stride[i] /= 2;
    }
    return bytes;
}

bool measure_tensor(const attile_tensor &numbers, int64_t *below, int64_t *above) {
    const attile_tensor tensor = in_bytes(numbers);
    const int64_t bytes = element_bytes(tensor.dtype);
    int64_t elements = 1;
    int64_t up = bytes, down = 0;
    bool overflow = false;
    for (int32_t i = 0; i < tensor.rank; ++i) {
        const int64_t extent = tensor.shape[i];
        overflow |= __builtin_mul_overflow(elements, extent, &elements);
        if (extent <= 1) continue;
        int64_t step = 0, whole = 0;
        overflow |= __builtin_mul_overflow(tensor.stride[i], bytes, &step);
        // One step more than is needed, so that a loop may form the offset past its end.
        overflow |= __builtin_mul_overflow(step, extent, &whole);
        if (overflow || whole == INT64_MIN) return false;
        const int64_t reach = whole - step;
        overflow |= reach < 0 ? __builtin_sub_overflow(down, reach, &down) : __builtin_add_overflow(up, reach, &up);
    }
    int64_t span = 0;
    overflow |= __builtin_add_overflow(up, down, &span);
    *below = down;
    *above = up;
    return !overflow;
}

namespace {

// Numbers of 4 bits: every byte holds two neighbours.
int32_t check_pairs(const Call &call, ArgName name, const attile_tensor &tensor) {
    int32_t pairs = -1;
    for (int32_t i = 0; i < tensor.rank && pairs < 0; ++i) {
        if (tensor.shape[i] > 1 && tensor.stride[i] == 1) pairs = i;
    }
    if (pairs < 0) {
        return fail(ATTILE_ERROR_INVALID_STRIDE, "%s: %s.stride is 1 along no axis of more than one number; two of %s share a byte",
                    call.operation, NameText(call, name).text, DtypeText(tensor.dtype).text);
    }
    if (tensor.shape[pairs] % 2 != 0) {
        return fail(ATTILE_ERROR_INVALID_SHAPE, "%s: %s.shape[%d] is %lld; expected an even extent, as two of %s share a byte",
                    call.operation, NameText(call, name).text, pairs, printable(tensor.shape[pairs]), DtypeText(tensor.dtype).text);
    }
    for (int32_t i = 0; i < tensor.rank; ++i) {
        if (i == pairs || tensor.shape[i] == 1 || tensor.stride[i] % 2 == 0) continue;
        return fail(ATTILE_ERROR_INVALID_STRIDE, "%s: %s.stride[%d] is %lld; expected an even one, as two of %s share a byte",
                    call.operation, NameText(call, name).text, i, printable(tensor.stride[i]), DtypeText(tensor.dtype).text);
    }
    return ATTILE_OK;
}

}  // namespace

int32_t check_tensor(const Call &call, ArgName name, const attile_tensor &tensor, const TensorRule &rule, View *view) {
    if ((dtype_bit(tensor.dtype) & rule.dtypes) == 0) {
        if (is_absent(tensor)) return fail(ATTILE_ERROR_NULL_ARGUMENT, "%s: %s is absent", call.operation, NameText(call, name).text);
        return fail(ATTILE_ERROR_INVALID_DTYPE, "%s: %s.dtype is %s; expected %s", call.operation, NameText(call, name).text,
                    DtypeText(tensor.dtype).text, DtypeSetText(rule.dtypes).text);
    }
    if (tensor.rank < rule.rank_min || tensor.rank > rule.rank_max) {
        if (rule.rank_min == rule.rank_max) {
            return fail(ATTILE_ERROR_INVALID_RANK, "%s: %s.rank is %d; expected %d", call.operation, NameText(call, name).text, tensor.rank,
                        rule.rank_min);
        }
        return fail(ATTILE_ERROR_INVALID_RANK, "%s: %s.rank is %d; expected %d to %d", call.operation, NameText(call, name).text,
                    tensor.rank, rule.rank_min, rule.rank_max);
    }
    bool empty = false;
    for (int32_t i = 0; i < tensor.rank; ++i) {
        if (tensor.shape[i] < 0) {
            return fail(ATTILE_ERROR_INVALID_SHAPE, "%s: %s.shape[%d] is %lld; expected 0 or more", call.operation,
                        NameText(call, name).text, i, printable(tensor.shape[i]));
        }
        empty |= tensor.shape[i] == 0;
    }
    view->tensor = &tensor;
    view->name = name;
    view->prefix = call.prefix;
    view->empty = empty;
    if (empty) return ATTILE_OK;  // neither pointer nor strides mean anything

    if (is_four_bits(tensor.dtype)) ATTILE_TRY(check_pairs(call, name, tensor));
    int64_t below = 0, above = 0;
    if (!measure_tensor(tensor, &below, &above)) {
        return fail(ATTILE_ERROR_OVERFLOW, "%s: the extents times the strides of %s exceed 63 bits of bytes", call.operation,
                    NameText(call, name).text);
    }
    if (rule.output && !strides_are_injective(tensor)) {
        return fail(ATTILE_ERROR_INVALID_STRIDE, "%s: %s.stride makes elements of this output share memory", call.operation,
                    NameText(call, name).text);
    }
    if (tensor.data == nullptr) {
        if (call.query) return ATTILE_OK;
        return fail(ATTILE_ERROR_NULL_ARGUMENT, "%s: %s.data is NULL though the tensor is not empty", call.operation,
                    NameText(call, name).text);
    }
    const uintptr_t address = reinterpret_cast<uintptr_t>(tensor.data);
    const int32_t bytes = element_bytes(tensor.dtype);
    if ((address & static_cast<uintptr_t>(bytes - 1)) != 0) {
        return fail(ATTILE_ERROR_MISALIGNED, "%s: %s.data is %p; expected a multiple of the element's %d bytes", call.operation,
                    NameText(call, name).text, tensor.data, bytes);
    }
    if (static_cast<uintptr_t>(below) > address || __builtin_add_overflow(address, static_cast<uintptr_t>(above), &view->high)) {
        return fail(ATTILE_ERROR_OVERFLOW, "%s: %s reaches beyond the ends of the address space", call.operation,
                    NameText(call, name).text);
    }
    view->low = address - static_cast<uintptr_t>(below);
    view->located = true;
    return ATTILE_OK;
}

int32_t check_extent(const Call &call, const View &view, int32_t axis, const char *label, int64_t extent, const char *origin) {
    if (view.shape(axis) == extent) return ATTILE_OK;
    return fail(ATTILE_ERROR_SHAPE_MISMATCH, "%s: %s.shape[%d] (%s) is %lld; expected %s = %lld", call.operation,
                NameText({call.operation, call.query, view.prefix}, view.name).text, axis, label, printable(view.shape(axis)), origin,
                printable(extent));
}

int32_t check_broadcast(const Call &call, const View &view, const int64_t *extents, int32_t axes, const char *target) {
    const int32_t missing = axes - view.rank();
    for (int32_t i = 0; i < view.rank(); ++i) {
        const int64_t wanted = extents[missing + i];
        if (view.shape(i) == wanted || view.shape(i) == 1) continue;
        return fail(ATTILE_ERROR_SHAPE_MISMATCH, "%s: %s.shape[%d] is %lld; expected 1 or %lld, so that it broadcasts to %s",
                    call.operation, NameText({call.operation, call.query, view.prefix}, view.name).text, i, printable(view.shape(i)),
                    printable(wanted), target);
    }
    return ATTILE_OK;
}

attile_operand make_operand(const View &view, int32_t axis0, int32_t axis1, int32_t axis2, int32_t axis3) {
    attile_operand operand = {};
    if (!view.present()) return operand;
    operand.data = view.tensor->data;
    operand.dtype = view.tensor->dtype;
    if (view.empty) return operand;  // its strides were not checked
    const int32_t axes[4] = {axis0, axis1, axis2, axis3};
    for (int32_t i = 0; i < 4; ++i) {
        if (axes[i] >= 0 && view.shape(axes[i]) != 1) operand.stride[i] = view.tensor->stride[axes[i]];
    }
    return operand;
}

attile_operand make_aligned_operand(const View &view, int32_t last) {
    if (!view.present()) return {};
    const int32_t shift = view.rank() - 1 - last;  // tensor axis = operand axis + shift
    const auto axis = [&](int32_t i) { return i <= last ? std::max(i + shift, -1) : -1; };
    return make_operand(view, axis(0), axis(1), axis(2), axis(3));
}

}  // namespace attile::core

extern "C" int32_t attile_tensor_init(attile_tensor *tensor, void *data, int32_t dtype, int32_t rank, const int64_t *shape) {
    using namespace attile::core;
    if (tensor == nullptr) return fail(ATTILE_ERROR_NULL_ARGUMENT, "tensor_init: tensor is NULL");
    attile_tensor made = {};
    *tensor = made;
    if (dtype_bit(dtype) == kNoDtype) {
        return fail(ATTILE_ERROR_INVALID_DTYPE, "tensor_init: dtype is %s; expected an ATTILE_ data type", DtypeText(dtype).text);
    }
    if (rank < 1 || rank > 4) return fail(ATTILE_ERROR_INVALID_RANK, "tensor_init: rank is %d; expected 1 to 4", rank);
    if (shape == nullptr) return fail(ATTILE_ERROR_NULL_ARGUMENT, "tensor_init: shape is NULL");
    made.data = data;
    made.dtype = dtype;
    made.rank = rank;
    int64_t stride = 1;
    for (int32_t i = rank - 1; i >= 0; --i) {
        if (shape[i] < 0) {
            return fail(ATTILE_ERROR_INVALID_SHAPE, "tensor_init: shape[%d] is %lld; expected 0 or more", i, printable(shape[i]));
        }
        made.shape[i] = shape[i];
        made.stride[i] = stride;
        if (__builtin_mul_overflow(stride, shape[i], &stride)) {
            return fail(ATTILE_ERROR_OVERFLOW, "tensor_init: the product of the extents exceeds 63 bits");
        }
    }
    int64_t bytes = 0;
    if (__builtin_mul_overflow(stride, static_cast<int64_t>(element_bytes(dtype)), &bytes)) {
        return fail(ATTILE_ERROR_OVERFLOW, "tensor_init: the bytes of the tensor exceed 63 bits");
    }
    *tensor = made;
    return ATTILE_OK;
}
