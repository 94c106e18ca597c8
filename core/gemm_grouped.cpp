// SPDX-License-Identifier: Apache-2.0
// attile_gemm_grouped: validate, normalise, forward.
#include <climits>

#include "alias.h"
#include "gemm_problem.h"
#include "scales.h"

namespace attile::core {
namespace {

constexpr uint32_t kFirstGroupedSize = ATTILE_SIZE_UP_TO(attile_gemm_grouped_args, b_zero);
constexpr uint32_t kGroupedFlags =
    ATTILE_FLAG_BATCH_INVARIANT | ATTILE_FLAG_NO_ALLOC | ATTILE_FLAG_ALLOW_SPLIT_TF32 | ATTILE_FLAG_ALLOW_NONDETERMINISTIC;

struct Views {
    View a, b, c, d, row_offsets, bias, b_scale, b_zero;
};

// A validated call.
struct GroupedProblem {
    attile_gemm_problem product;
    attile_gemm_grouped_problem problem;
    bool nothing_to_do;
};

// Each tensor by itself, and the types they may have beside each other.
int32_t check_operands(const Call &call, const attile_gemm_grouped_args &args, Views *views) {
    ATTILE_TRY(check_tensor(call, "a", args.a, {kFloats, 2, 2}, &views->a));
    const DtypeSet type = dtype_bit(args.a.dtype);
    ATTILE_TRY(check_tensor(call, "b", args.b, {types_of_b(type), 3, 3}, &views->b));
    ATTILE_TRY(check_tensor(call, "d", args.d, {types_of_d(type), 2, 2, true}, &views->d));
    if (!is_zero_in(args.a.dtype, args.beta)) {  // else c is not looked at
        if (is_absent(args.c)) {
            return fail(ATTILE_ERROR_INVALID_VALUE, "%s: beta is %g, but c is absent", call.operation, args.beta);
        }
        ATTILE_TRY(check_tensor(call, "c", args.c, {dtype_bit(args.d.dtype), 2, 2}, &views->c));
    }
    ATTILE_TRY(check_tensor(call, "row_offsets", args.row_offsets, {kI32, 1, 1}, &views->row_offsets));
    ATTILE_TRY(check_optional(call, "bias", args.bias, {dtype_bit(args.d.dtype) | kF32, 1, 2}, &views->bias));
    ATTILE_TRY(check_scale(call, "b_scale", args.b_scale, views->b, {kNarrow | kFourBits, 2, 3}, &views->b_scale));
    return check_four_bits(call, args.b_zero, views->b, views->b_scale, &views->b_zero);
}

int32_t check_shapes(const Call &call, const Views &views, attile_gemm_problem *product) {
    const View &a = views.a, &b = views.b, &c = views.c, &d = views.d, &offsets = views.row_offsets;
    const int64_t m = product->m = d.shape(0), n = product->n = d.shape(1), k = product->k = a.shape(1);
    if (m > INT_MAX) {
        return fail(ATTILE_ERROR_INVALID_SHAPE, "%s: d.shape[0] (m) is %lld; expected at most %d, since row_offsets are i32",
                    call.operation, static_cast<long long>(m), INT_MAX);
    }
    if (offsets.shape(0) < 1) {
        return fail(ATTILE_ERROR_INVALID_SHAPE, "%s: row_offsets.shape[0] is 0; expected the number of groups + 1", call.operation);
    }
    const int64_t groups = offsets.shape(0) - 1;
    product->batch[0] = 1;
    product->batch[1] = groups;
    ATTILE_TRY(check_extent(call, a, 0, "m", m, "the rows of d"));
    ATTILE_TRY(check_extent(call, b, 1, "k", k, "the columns of a"));
    ATTILE_TRY(check_extent(call, b, 2, "n", n, "the columns of d"));
    if (c.present()) {
        ATTILE_TRY(check_extent(call, c, 0, "m", m, "the rows of d"));
        ATTILE_TRY(check_extent(call, c, 1, "n", n, "the columns of d"));
    }
    const int64_t of_b[3] = {groups, k, n}, of_bias[2] = {groups, n};
    ATTILE_TRY(check_broadcast(call, b, of_b, 3, "the groups of row_offsets"));
    if (views.bias.present()) {
        ATTILE_TRY(check_extent(call, views.bias, views.bias.rank() - 1, "n", n, "the columns of d"));
        ATTILE_TRY(check_broadcast(call, views.bias, of_bias, 2, "the groups of row_offsets"));
    }
    return check_blocks(call, views.b_scale, {"k", k, true}, {"n", n, false}, product->batch, product->b_group);
}

int32_t check_aliasing(const Call &call, const Views &views, const attile_launch &launch) {
    for (const View *input : {&views.a, &views.b, &views.row_offsets, &views.bias, &views.b_scale, &views.b_zero}) {
        ATTILE_TRY(refuse_overlap(call, views.d, *input));
    }
    ATTILE_TRY(refuse_partial_overlap(call, views.d, views.c));
    const View *all[] = {&views.a, &views.b, &views.c, &views.d, &views.row_offsets, &views.bias, &views.b_scale, &views.b_zero};
    return check_workspace_apart(call, launch, all, 8);
}

int32_t prepare(const Call &call, const attile_gemm_grouped_args *args, GroupedProblem *grouped) {
    attile_gemm_grouped_args full;
    ATTILE_TRY(read_args(call.operation, "args", kFirstGroupedSize, kGroupedFlags, args, &full));
    attile_gemm_problem &product = grouped->product;
    product = {};
    product.struct_size = sizeof product;
    ATTILE_TRY(make_launch(call, full.stream, full.workspace, full.workspace_bytes, full.flags, &product.launch));
    if (full.reserved != 0) {
        return fail(ATTILE_ERROR_STRUCT_TOO_NEW, "%s: reserved is %d; expected 0", call.operation, full.reserved);
    }
    ATTILE_TRY(check_gemm_factors(call, full.a.dtype, full.alpha, full.beta));
    ATTILE_TRY(check_activation(call, full.activation));
    Views views;
    ATTILE_TRY(check_operands(call, full, &views));
    ATTILE_TRY(check_shapes(call, views, &product));
    ATTILE_TRY(check_aliasing(call, views, product.launch));
    grouped->nothing_to_do = views.d.empty || product.batch[1] == 0;
    product.compute = full.a.dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32;
    product.alpha = is_zero_in(full.a.dtype, full.alpha) ? 0.0 : full.alpha;
    product.beta = is_zero_in(full.a.dtype, full.beta) ? 0.0 : full.beta;
    product.activation = full.activation;
    if (product.alpha == 0.0) product.k = 0;
    product.a = make_aligned_operand(views.a);
    product.b = make_aligned_operand(views.b);
    product.c = make_aligned_operand(views.c);
    product.d = make_aligned_operand(views.d);
    product.bias = make_operand(views.bias, -1, views.bias.present() && views.bias.rank() == 2 ? 0 : -1, -1,
                                views.bias.present() ? views.bias.rank() - 1 : -1);
    if (product.k > 0) {
        product.b_scale = make_aligned_operand(views.b_scale);
        product.b_zero = make_aligned_operand(views.b_zero);
    } else {  // nothing is scaled
        product.b_group[0] = product.b_group[1] = 0;
    }
    attile_gemm_grouped_problem &problem = grouped->problem;
    problem = {};
    problem.struct_size = sizeof problem;
    problem.product = &product;
    problem.row_offsets = make_operand(views.row_offsets, -1, 0);
    return ATTILE_OK;
}

}  // namespace
}  // namespace attile::core

using namespace attile::core;

extern "C" {

int32_t attile_gemm_grouped(attile_context *handle, const attile_gemm_grouped_args *args) {
    return on_context(handle, [&](Context *context) -> int32_t {
        const Call call = {"gemm_grouped"};
        GroupedProblem grouped;
        ATTILE_TRY(prepare(call, args, &grouped));
        return run_problem(call, context, context->interfaces.gemm_grouped, grouped.problem, grouped.product.launch, grouped.nothing_to_do);
    });
}

int32_t attile_gemm_grouped_query(attile_context *handle, const attile_gemm_grouped_args *args, attile_support *support) {
    return on_context(handle, [&](Context *context) -> int32_t {
        const Call call = {"gemm_grouped", true};
        GroupedProblem grouped;
        ATTILE_TRY(prepare(call, args, &grouped));
        ATTILE_TRY(check_output(call.operation, "support", kSupportFirstSize, support));
        return query_problem(call, context, context->interfaces.gemm_grouped, grouped.problem, grouped.nothing_to_do, support);
    });
}

}  // extern "C"
