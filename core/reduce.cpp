// SPDX-License-Identifier: Apache-2.0
// attile_reduce: validate, normalise, forward.
#include "alias.h"
#include "axis.h"
#include "operation.h"

namespace attile::core {
namespace {

constexpr uint32_t kFirstReduceSize = ATTILE_SIZE_UP_TO(attile_reduce_args, axis);
constexpr uint32_t kReduceFlags = ATTILE_FLAG_BATCH_INVARIANT | ATTILE_FLAG_NO_ALLOC | ATTILE_FLAG_EXACT_PRODUCTS;

int32_t prepare(const Call &call, const attile_reduce_args *args, attile_reduce_problem *problem, bool *nothing_to_do) {
    attile_reduce_args full;
    ATTILE_TRY(read_args(call.operation, "args", kFirstReduceSize, kReduceFlags, args, &full));
    *problem = {};
    problem->struct_size = sizeof *problem;
    ATTILE_TRY(make_launch(call, full.stream, full.workspace, full.workspace_bytes, full.flags, &problem->launch));
    if (full.op < ATTILE_REDUCE_SUM || full.op > ATTILE_REDUCE_MEAN) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: op is %d; expected an ATTILE_REDUCE_ constant", call.operation, full.op);
    }
    View x, y;
    ATTILE_TRY(check_tensor(call, "x", full.x, {kFloats, 1, 4}, &x));
    ATTILE_TRY(check_tensor(call, "y", full.y, {widened(dtype_bit(full.x.dtype)), x.rank(), x.rank(), true}, &y));
    AxisOrder order = {};
    ATTILE_TRY(order_axes(call, x.rank(), full.axis, &order));
    for (int32_t i = 0; i < x.rank(); ++i) {
        if (i == order.chosen) {
            ATTILE_TRY(check_extent(call, y, i, "the axis reduced", 1, "an extent that is reduced"));
        } else {
            ATTILE_TRY(check_extent(call, y, i, "an axis kept", x.shape(i), "the same of x"));
        }
    }
    ATTILE_TRY(refuse_overlap(call, y, x));
    const View *all[] = {&x, &y};
    ATTILE_TRY(check_workspace_apart(call, problem->launch, all, 2));
    problem->compute = full.x.dtype == ATTILE_F64 || is_exact(full.flags) ? ATTILE_F64 : ATTILE_F32;
    order.shape(x, problem->shape);
    problem->x = order.operand(x);
    problem->y = order.operand(y);
    problem->op = full.op;
    *nothing_to_do = y.empty;
    return ATTILE_OK;
}

}  // namespace
}  // namespace attile::core

using namespace attile::core;

extern "C" {

int32_t attile_reduce(attile_context *handle, const attile_reduce_args *args) {
    return on_context(handle, [&](Context *context) -> int32_t {
        const Call call = {"reduce"};
        attile_reduce_problem problem;
        bool nothing_to_do = false;
        ATTILE_TRY(prepare(call, args, &problem, &nothing_to_do));
        ATTILE_TRY(check_exact_known(call, context, context->interfaces.reduce, problem.launch, kExactVersion));
        return run_problem(call, context, context->interfaces.reduce, problem, problem.launch, nothing_to_do);
    });
}

int32_t attile_reduce_query(attile_context *handle, const attile_reduce_args *args, attile_support *support) {
    return on_context(handle, [&](Context *context) -> int32_t {
        const Call call = {"reduce", true};
        attile_reduce_problem problem;
        bool nothing_to_do = false;
        ATTILE_TRY(prepare(call, args, &problem, &nothing_to_do));
        ATTILE_TRY(check_output(call.operation, "support", kSupportFirstSize, support));
        const auto check = [&] { return check_exact_known(call, context, context->interfaces.reduce, problem.launch, kExactVersion); };
        if (answer_failure(check, support)) return ATTILE_OK;
        return query_problem(call, context, context->interfaces.reduce, problem, nothing_to_do, support);
    });
}

}  // extern "C"
