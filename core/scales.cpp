// SPDX-License-Identifier: Apache-2.0
#include "scales.h"

#include <algorithm>

#include "status.h"

namespace attile::core {
namespace {

constexpr int64_t kDepthGroups[] = {32, 64, 128};
constexpr int64_t kWidthGroup = 128;

// The numbers along one axis that share a scale, 0 if the scales do not divide it.
int64_t group_of(int64_t scales, const ScaledAxis &axis) {
    if (scales == 1) return std::max<int64_t>(axis.extent, 1);
    if (!axis.is_depth && scales == axis.extent) return 1;
    for (const int64_t group : kDepthGroups) {
        if ((axis.is_depth || group == kWidthGroup) && axis.extent % group == 0 && axis.extent / group == scales) return group;
    }
    return 0;
}

}  // namespace

int64_t scale_group(int64_t scales, int64_t extent, bool may_be_cut) {
    if (scales == 1) return std::max<int64_t>(extent, 1);
    if (scales == extent) return 1;
    for (const int64_t group : kDepthGroups) {
        if (may_be_cut && extent % group == 0 && extent / group == scales) return group;
    }
    return 0;
}

int32_t check_integer_sums(const Call &call, const attile_gemm_args &args) {
    const auto refuse = [&](const char *name) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: %s is given, but d.dtype is i32; expected f32, f16 or bf16 beside it", call.operation,
                    name);
    };
    if (args.alpha != 1.0) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: alpha is %g; expected 1, because d.dtype is i32", call.operation, args.alpha);
    }
    if (args.beta != 0.0) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: beta is %g; expected 0, because d.dtype is i32", call.operation, args.beta);
    }
    if (!is_absent(args.bias)) return refuse("bias");
    if (args.activation != ATTILE_ACTIVATION_NONE) return refuse("activation");
    if (!is_absent(args.a_scale)) return refuse("a_scale");
    if (!is_absent(args.b_scale)) return refuse("b_scale");
    const int64_t k = args.a.shape[args.a.rank - 1];
    if (k <= kMostExactDepth) return ATTILE_OK;
    return fail(ATTILE_ERROR_INVALID_SHAPE, "%s: a.shape[%d] (k) is %lld; expected at most %lld, whose sums i32 holds", call.operation,
                args.a.rank - 1, static_cast<long long>(k), static_cast<long long>(kMostExactDepth));
}

int32_t check_scale(const Call &call, const char *name, const attile_tensor &tensor, const View &operand, const TensorRule &scaled,
                    View *view) {
    if (is_absent(tensor)) return ATTILE_OK;
    if ((dtype_bit(operand.dtype()) & scaled.dtypes) == 0) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: %s is given, but %s.dtype is %s; expected %s", call.operation, name, operand.name.text,
                    DtypeText(operand.dtype()).text, DtypeSetText(scaled.dtypes).text);
    }
    return check_tensor(call, name, tensor, {kF32, scaled.rank_min, scaled.rank_max}, view);
}

int32_t check_last_axis(const Call &call, const View &numbers) {
    const int32_t last = numbers.rank() - 1;
    if (!is_four_bits(numbers.dtype()) || numbers.empty || (numbers.shape(last) > 1 && numbers.tensor->stride[last] == 1)) return ATTILE_OK;
    const char *const name = numbers.name.text;
    return fail(ATTILE_ERROR_INVALID_STRIDE, "%s: %s.stride[%d] is %lld; expected 1 along the last axis, as %s.dtype is %s", call.operation,
                name, last, static_cast<long long>(numbers.tensor->stride[last]), name, DtypeText(numbers.dtype()).text);
}

int32_t check_four_bits(const Call &call, const attile_tensor &b_zero, const View &b, const View &scale, View *zero) {
    if (is_four_bits(b.dtype()) && !b.empty) {
        for (int32_t i = 0; i < b.rank() - 2; ++i) {
            if (b.shape(i) == 1 || b.tensor->stride[i] % 2 == 0) continue;
            return fail(ATTILE_ERROR_INVALID_STRIDE,
                        "%s: b.stride[%d] is 1; expected that along one of the last two axes, as b.dtype is %s", call.operation, i,
                        DtypeText(b.dtype()).text);
        }
    }
    if (is_absent(b_zero)) return ATTILE_OK;
    if (b.dtype() != ATTILE_U4) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: b_zero is given, but b.dtype is %s; expected %s", call.operation,
                    DtypeText(b.dtype()).text, DtypeText(ATTILE_U4).text);
    }
    if (!scale.present()) return fail(ATTILE_ERROR_INVALID_VALUE, "%s: b_zero is given, but b_scale is absent", call.operation);
    ATTILE_TRY(check_tensor(call, "b_zero", b_zero, {kF32, scale.rank(), scale.rank()}, zero));
    for (int32_t i = 0; i < scale.rank(); ++i) {
        ATTILE_TRY(check_extent(call, *zero, i, "a number for each scale", scale.shape(i), "the same of b_scale"));
    }
    return ATTILE_OK;
}

int32_t check_blocks(const Call &call, const View &scale, const ScaledAxis &first, const ScaledAxis &second, const int64_t *batch,
                     int64_t *group) {
    if (!scale.present()) return ATTILE_OK;
    const int32_t rank = scale.rank();
    const ScaledAxis *const axes[2] = {&first, &second};
    for (int32_t i = 0; i < 2; ++i) {
        const int32_t axis = rank - 2 + i;
        group[i] = group_of(scale.shape(axis), *axes[i]);
        if (group[i] != 0) continue;
        const char *const label = axes[i]->label;
        const long long found = static_cast<long long>(scale.shape(axis)), extent = static_cast<long long>(axes[i]->extent);
        if (axes[i]->is_depth) {
            return fail(ATTILE_ERROR_SHAPE_MISMATCH, "%s: %s.shape[%d] (blocks of %s) is %lld; expected 1, or %s = %lld over 32, 64 or 128",
                        call.operation, scale.name.text, axis, label, found, label, extent);
        }
        return fail(ATTILE_ERROR_SHAPE_MISMATCH, "%s: %s.shape[%d] (blocks of %s) is %lld; expected 1, %s = %lld, or that over 128",
                    call.operation, scale.name.text, axis, label, found, label, extent);
    }
    const int64_t target[4] = {batch[0], batch[1], scale.shape(rank - 2), scale.shape(rank - 1)};
    return check_broadcast(call, scale, target, 4, "the batch axes of the output");
}

}  // namespace attile::core
