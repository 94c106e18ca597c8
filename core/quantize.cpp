// SPDX-License-Identifier: Apache-2.0
// attile_quantize and attile_dequantize: validate, normalise, forward.
#include <algorithm>

#include "alias.h"
#include "operation.h"
#include "scales.h"

namespace attile::core {
namespace {

constexpr uint32_t kFirstQuantizeSize = ATTILE_SIZE_UP_TO(attile_quantize_args, zero);
constexpr uint32_t kFirstDequantizeSize = ATTILE_SIZE_UP_TO(attile_dequantize_args, zero);
constexpr uint32_t kQuantizeFlags = ATTILE_FLAG_BATCH_INVARIANT | ATTILE_FLAG_NO_ALLOC;
constexpr DtypeSet kUnquantized = kF32 | kF16 | kBf16, kQuantized = kNarrow | kFourBits;
constexpr int32_t kMostRotated = 512;

// The blocks' extents along the problem's four axes.
int32_t check_groups(const Call &call, const View &scale, const View &x, int64_t group[4]) {
    std::fill(group, group + 4, int64_t{1});
    if (!scale.present()) return ATTILE_OK;
    for (int32_t axis = 0; axis < x.rank(); ++axis) {
        const int32_t at = axis - x.rank() + scale.rank();
        const bool may_be_cut = axis >= x.rank() - 2;
        int64_t *const found = &group[4 - x.rank() + axis];
        *found = scale_group(at < 0 ? 1 : scale.shape(at), x.shape(axis), may_be_cut);
        if (*found != 0) continue;
        return fail(ATTILE_ERROR_SHAPE_MISMATCH, "%s: scale.shape[%d] is %lld; expected 1 or x.shape[%d] = %lld%s", call.operation, at,
                    static_cast<long long>(scale.shape(at)), axis, static_cast<long long>(x.shape(axis)),
                    may_be_cut ? ", or that over 32, 64 or 128" : "");
    }
    return ATTILE_OK;
}

int32_t check_hadamard(const Call &call, int32_t count, const View &x) {
    if (count == 0) return ATTILE_OK;
    const int64_t extent = x.shape(x.rank() - 1);
    if (count >= 2 && count <= kMostRotated && (count & (count - 1)) == 0 && extent % count == 0) return ATTILE_OK;
    return fail(ATTILE_ERROR_INVALID_VALUE,
                "%s: hadamard is %d; expected 0, or a power of two from 2 to %d that divides the last extent, %lld", call.operation, count,
                kMostRotated, static_cast<long long>(extent));
}

// What both directions have: x and q by themselves, and to which of them scales belong.
struct Operands {
    View x, q, scale, zero;
};

// Zero points, of u4 alone: where they are written they must be there.
int32_t check_zero(const Call &call, const attile_tensor &tensor, bool given, Operands *all) {
    if (all->q.dtype() != ATTILE_U4) {
        if (is_absent(tensor)) return ATTILE_OK;
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: zero is given, but q.dtype is %s; expected %s", call.operation,
                    DtypeText(all->q.dtype()).text, DtypeText(ATTILE_U4).text);
    }
    if (given && is_absent(tensor)) return ATTILE_OK;
    if (!all->scale.present()) return fail(ATTILE_ERROR_INVALID_VALUE, "%s: zero is given, but scale is absent", call.operation);
    const int32_t rank = all->scale.rank();
    ATTILE_TRY(check_tensor(call, "zero", tensor, {kF32, rank, rank, !given}, &all->zero));
    for (int32_t i = 0; i < rank; ++i) {
        ATTILE_TRY(check_extent(call, all->zero, i, "a number for each scale", all->scale.shape(i), "the same of scale"));
    }
    return ATTILE_OK;
}

// What is left once the tensors have been checked by themselves.
int32_t normalise(const Call &call, const Operands &operands, int32_t hadamard, attile_quantize_problem *problem, bool *nothing_to_do) {
    const View &x = operands.x, &q = operands.q, &scale = operands.scale, &zero = operands.zero;
    ATTILE_TRY(check_last_axis(call, q));
    for (int32_t i = 0; i < x.rank(); ++i) ATTILE_TRY(check_extent(call, q, i, "of the numbers", x.shape(i), "the same of x"));
    ATTILE_TRY(check_hadamard(call, hadamard, x));
    ATTILE_TRY(check_groups(call, scale, x, problem->group));
    const bool back = problem->back != 0;
    const View &output = back ? x : q;
    ATTILE_TRY(refuse_overlap(call, output, back ? q : x));
    ATTILE_TRY(refuse_overlap(call, output, scale));
    ATTILE_TRY(refuse_overlap(call, output, zero));
    if (problem->scale_given == 0) {
        ATTILE_TRY(refuse_overlap(call, scale, x));
        ATTILE_TRY(refuse_overlap(call, zero, x));
        ATTILE_TRY(refuse_overlap(call, zero, scale));
    }
    const View *all[] = {&x, &q, &scale, &zero};
    ATTILE_TRY(check_workspace_apart(call, problem->launch, all, 4));
    for (int32_t i = 0; i < 4; ++i) problem->shape[i] = i < 4 - x.rank() ? 1 : x.shape(i - 4 + x.rank());
    problem->x = make_aligned_operand(x);
    problem->q = make_aligned_operand(q);
    problem->scale = make_aligned_operand(scale);
    problem->zero = make_aligned_operand(zero);
    problem->hadamard = hadamard;
    *nothing_to_do = output.empty;
    return ATTILE_OK;
}

int32_t prepare(const Call &call, const attile_quantize_args *args, attile_quantize_problem *problem, bool *nothing_to_do) {
    attile_quantize_args full;
    ATTILE_TRY(read_args(call.operation, "args", kFirstQuantizeSize, kQuantizeFlags, args, &full));
    *problem = {};
    problem->struct_size = sizeof *problem;
    ATTILE_TRY(make_launch(call, full.stream, full.workspace, full.workspace_bytes, full.flags, &problem->launch));
    if (full.scale_mode != ATTILE_SCALE_FROM_MAXIMUM && full.scale_mode != ATTILE_SCALE_GIVEN) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: scale_mode is %d; expected an ATTILE_SCALE_ constant", call.operation,
                    full.scale_mode);
    }
    problem->scale_given = full.scale_mode == ATTILE_SCALE_GIVEN ? 1 : 0;
    Operands all;
    ATTILE_TRY(check_tensor(call, "x", full.x, {kUnquantized, 1, 4}, &all.x));
    ATTILE_TRY(check_tensor(call, "q", full.q, {kQuantized, all.x.rank(), all.x.rank(), true}, &all.q));
    if (problem->scale_given != 0) {
        ATTILE_TRY(check_optional(call, "scale", full.scale, {kF32, 1, all.x.rank()}, &all.scale));
    } else {
        ATTILE_TRY(check_tensor(call, "scale", full.scale, {kF32, 1, all.x.rank(), true}, &all.scale));
    }
    ATTILE_TRY(check_zero(call, full.zero, problem->scale_given != 0, &all));
    return normalise(call, all, full.hadamard, problem, nothing_to_do);
}

int32_t prepare(const Call &call, const attile_dequantize_args *args, attile_quantize_problem *problem, bool *nothing_to_do) {
    attile_dequantize_args full;
    ATTILE_TRY(read_args(call.operation, "args", kFirstDequantizeSize, kQuantizeFlags, args, &full));
    *problem = {};
    problem->struct_size = sizeof *problem;
    ATTILE_TRY(make_launch(call, full.stream, full.workspace, full.workspace_bytes, full.flags, &problem->launch));
    if (full.reserved != 0) {
        return fail(ATTILE_ERROR_STRUCT_TOO_NEW, "%s: reserved is %d; expected 0", call.operation, full.reserved);
    }
    problem->back = problem->scale_given = 1;
    Operands all;
    ATTILE_TRY(check_tensor(call, "q", full.q, {kQuantized, 1, 4}, &all.q));
    ATTILE_TRY(check_optional(call, "scale", full.scale, {kF32, 1, all.q.rank()}, &all.scale));
    ATTILE_TRY(check_zero(call, full.zero, true, &all));
    ATTILE_TRY(check_tensor(call, "x", full.x, {kUnquantized, all.q.rank(), all.q.rank(), true}, &all.x));
    return normalise(call, all, full.hadamard, problem, nothing_to_do);
}

template <typename Args>
int32_t run_either(const Call &call, attile_context *handle, const Args *args) {
    return on_context(handle, [&](Context *context) -> int32_t {
        attile_quantize_problem problem;
        bool nothing_to_do = false;
        ATTILE_TRY(prepare(call, args, &problem, &nothing_to_do));
        return run_problem(call, context, context->interfaces.quantize, problem, problem.launch, nothing_to_do);
    });
}

template <typename Args>
int32_t query_either(const Call &call, attile_context *handle, const Args *args, attile_support *support) {
    return on_context(handle, [&](Context *context) -> int32_t {
        attile_quantize_problem problem;
        bool nothing_to_do = false;
        ATTILE_TRY(prepare(call, args, &problem, &nothing_to_do));
        ATTILE_TRY(check_output(call.operation, "support", kSupportFirstSize, support));
        return query_problem(call, context, context->interfaces.quantize, problem, nothing_to_do, support);
    });
}

}  // namespace
}  // namespace attile::core

using namespace attile::core;

extern "C" {

int32_t attile_quantize(attile_context *handle, const attile_quantize_args *args) { return run_either({"quantize"}, handle, args); }

int32_t attile_quantize_query(attile_context *handle, const attile_quantize_args *args, attile_support *support) {
    return query_either({"quantize", true}, handle, args, support);
}

int32_t attile_dequantize(attile_context *handle, const attile_dequantize_args *args) { return run_either({"dequantize"}, handle, args); }

int32_t attile_dequantize_query(attile_context *handle, const attile_dequantize_args *args, attile_support *support) {
    return query_either({"dequantize", true}, handle, args, support);
}

}  // extern "C"
