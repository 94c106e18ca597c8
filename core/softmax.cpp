// SPDX-License-Identifier: Apache-2.0
// attile_softmax: validate, normalise, forward.
#include "alias.h"
#include "axis.h"
#include "operation.h"

namespace attile::core {
namespace {

constexpr uint32_t kFirstSoftmaxSize = ATTILE_SIZE_UP_TO(attile_softmax_args, reserved);
constexpr uint32_t kSoftmaxFlags = ATTILE_FLAG_BATCH_INVARIANT | ATTILE_FLAG_NO_ALLOC | ATTILE_FLAG_EXACT_PRODUCTS;

int32_t prepare(const Call &call, const attile_softmax_args *args, attile_softmax_problem *problem, bool *nothing_to_do) {
    attile_softmax_args full;
    ATTILE_TRY(read_args(call.operation, "args", kFirstSoftmaxSize, kSoftmaxFlags, args, &full));
    *problem = {};
    problem->struct_size = sizeof *problem;
    ATTILE_TRY(make_launch(call, full.stream, full.workspace, full.workspace_bytes, full.flags, &problem->launch));
    if (full.reserved != 0) {
        return fail(ATTILE_ERROR_STRUCT_TOO_NEW, "%s: reserved is %d; expected 0", call.operation, full.reserved);
    }
    View x, y;
    ATTILE_TRY(check_tensor(call, "x", full.x, {kFloats, 1, 4}, &x));
    ATTILE_TRY(check_tensor(call, "y", full.y, {widened(dtype_bit(full.x.dtype)), x.rank(), x.rank(), true}, &y));
    AxisOrder order = {};
    ATTILE_TRY(order_axes(call, x.rank(), full.axis, &order));
    for (int32_t i = 0; i < x.rank(); ++i) ATTILE_TRY(check_extent(call, y, i, "of the output", x.shape(i), "the same of x"));
    ATTILE_TRY(refuse_partial_overlap(call, y, x));
    const View *all[] = {&x, &y};
    ATTILE_TRY(check_workspace_apart(call, problem->launch, all, 2));
    problem->compute = full.x.dtype == ATTILE_F64 || is_exact(full.flags) ? ATTILE_F64 : ATTILE_F32;
    order.shape(x, problem->shape);
    problem->x = order.operand(x);
    problem->y = order.operand(y);
    *nothing_to_do = y.empty;
    return ATTILE_OK;
}

}  // namespace
}  // namespace attile::core

using namespace attile::core;

extern "C" {

int32_t attile_softmax(attile_context *handle, const attile_softmax_args *args) {
    return on_context(handle, [&](Context *context) -> int32_t {
        const Call call = {"softmax"};
        attile_softmax_problem problem;
        bool nothing_to_do = false;
        ATTILE_TRY(prepare(call, args, &problem, &nothing_to_do));
        ATTILE_TRY(check_exact_known(call, context, context->interfaces.softmax, problem.launch, kExactVersion));
        return run_problem(call, context, context->interfaces.softmax, problem, problem.launch, nothing_to_do);
    });
}

int32_t attile_softmax_query(attile_context *handle, const attile_softmax_args *args, attile_support *support) {
    return on_context(handle, [&](Context *context) -> int32_t {
        const Call call = {"softmax", true};
        attile_softmax_problem problem;
        bool nothing_to_do = false;
        ATTILE_TRY(prepare(call, args, &problem, &nothing_to_do));
        ATTILE_TRY(check_output(call.operation, "support", kSupportFirstSize, support));
        const auto check = [&] { return check_exact_known(call, context, context->interfaces.softmax, problem.launch, kExactVersion); };
        if (answer_failure(check, support)) return ATTILE_OK;
        return query_problem(call, context, context->interfaces.softmax, problem, nothing_to_do, support);
    });
}

}  // extern "C"
