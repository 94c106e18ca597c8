// SPDX-License-Identifier: Apache-2.0
// attile_gemm: validate, normalise, forward.
#include "gemm_problem.h"

#include <cmath>

#include "alias.h"
#include "gemm_plain.h"
#include "log.h"
#include "scales.h"

namespace attile::core {
namespace {

constexpr uint32_t kFirstGemmSize = ATTILE_SIZE_UP_TO(attile_gemm_args, activation);
constexpr uint32_t kGemmFlags = ATTILE_FLAG_BATCH_INVARIANT | ATTILE_FLAG_NO_ALLOC | ATTILE_FLAG_ALLOW_SPLIT_TF32 |
                                ATTILE_FLAG_ALLOW_NONDETERMINISTIC | ATTILE_FLAG_EXACT_PRODUCTS | ATTILE_FLAG_FAST_ACCUMULATION;

struct GemmViews {
    View a, b, c, d, bias, a_scale, b_scale, b_zero, d_scale;
};

// The type that alpha and beta have in the call: that of the sums.
int32_t factor_dtype(const attile_gemm_args &args) { return is_exact(args.flags) ? ATTILE_F64 : args.a.dtype; }

// What no backend multiplies exactly, and why.
int32_t check_exact(const Call &call, const attile_gemm_problem &problem) {
    for (const attile_operand *operand : {&problem.a, &problem.b}) {
        if (operand->dtype == ATTILE_F64 || operand->dtype == ATTILE_F32) continue;
        return fail(ATTILE_ERROR_UNSUPPORTED_DTYPE, "%s: EXACT_PRODUCTS is set and %s has the type %s; expected f64 or f32", call.operation,
                    operand == &problem.a ? "a" : "b", DtypeText(operand->dtype).text);
    }
    if ((dtype_bit(problem.d.dtype) & kNarrow) != 0) {
        return fail(ATTILE_ERROR_UNSUPPORTED_DTYPE, "%s: EXACT_PRODUCTS is set and d has the type %s; expected %s", call.operation,
                    DtypeText(problem.d.dtype).text, DtypeText(problem.a.dtype).text);
    }
    if (problem.activation == ATTILE_ACTIVATION_NONE || problem.activation == ATTILE_ACTIVATION_RELU) return ATTILE_OK;
    return fail(ATTILE_ERROR_UNSUPPORTED_FEATURE,
                "%s: EXACT_PRODUCTS is set and activation is %d; expected none or relu, since exp and erf are not the same bits everywhere",
                call.operation, problem.activation);
}

// Each tensor by itself, and the types they may have beside each other.
int32_t check_operands(const Call &call, const attile_gemm_args &args, const char *output_name, GemmViews *views) {
    ATTILE_TRY(check_tensor(call, "a", args.a, {kFloats | kNarrow, 2, 4}, &views->a));
    const DtypeSet type = dtype_bit(args.a.dtype);
    ATTILE_TRY(check_tensor(call, "b", args.b, {types_of_b(type), 2, 4}, &views->b));
    const DtypeSet narrow = type == kF64 ? kNoDtype : kNarrow;
    ATTILE_TRY(check_tensor(call, output_name, args.d, {types_of_d(type) | narrow, 2, 4, true}, &views->d));
    const int32_t rank = args.d.rank;
    for (const View *view : {&views->a, &views->b}) {
        if (view->rank() > rank) {
            return fail(ATTILE_ERROR_INVALID_RANK, "%s: %s.rank is %d; expected no more than %s.rank = %d", call.operation, view->name.text,
                        view->rank(), output_name, rank);
        }
    }
    if (!is_zero_in(factor_dtype(args), args.beta)) {  // else c is not looked at
        if (is_absent(args.c)) {
            return fail(ATTILE_ERROR_INVALID_VALUE, "%s: beta is %g, but c is absent", call.operation, args.beta);
        }
        ATTILE_TRY(check_tensor(call, "c", args.c, {type_of_c(args.d.dtype), 2, rank}, &views->c));
    }
    const bool has_bias = !is_absent(args.bias);
    if (has_bias != (args.bias_axis != ATTILE_BIAS_NONE)) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: bias is %s, but bias_axis is %d", call.operation, has_bias ? "given" : "absent",
                    args.bias_axis);
    }
    if (args.d.dtype == ATTILE_I32) ATTILE_TRY(check_integer_sums(call, args));
    ATTILE_TRY(check_scale(call, "a_scale", args.a_scale, views->a, {kNarrow | kFourBits, 2, rank}, &views->a_scale));
    ATTILE_TRY(check_scale(call, "b_scale", args.b_scale, views->b, {kNarrow | kFourBits, 2, rank}, &views->b_scale));
    ATTILE_TRY(check_four_bits(call, args.b_zero, views->b, views->b_scale, &views->b_zero));
    ATTILE_TRY(check_scale(call, "d_scale", args.d_scale, views->d, {kNarrow, 1, rank}, &views->d_scale));
    return check_optional(call, "bias", args.bias, {type_of_c(args.d.dtype) | kF32, 1, rank - 1}, &views->bias);
}

int32_t check_shapes(const Call &call, const GemmViews &views, const attile_gemm_args &args, GemmProblem *gemm) {
    const View &a = views.a, &b = views.b, &d = views.d;
    const int32_t rank = d.rank();
    attile_gemm_problem &problem = gemm->problem;
    const int64_t m = problem.m = d.shape(rank - 2);
    const int64_t n = problem.n = d.shape(rank - 1);
    const int64_t k = a.shape(a.rank() - 1);
    problem.batch[0] = rank == 4 ? d.shape(0) : 1;
    problem.batch[1] = rank >= 3 ? d.shape(rank - 3) : 1;
    const struct {
        const View &view;
        int32_t from_last;
        const char *label;
        int64_t extent;
        const char *origin;
    } extents[] = {
        {a, 2, "m", m, "the rows of the output"},
        {b, 1, "n", n, "the columns of the output"},
        {b, 2, "k", k, "the columns of a"},
    };
    for (const auto &wanted : extents) {
        ATTILE_TRY(check_extent(call, wanted.view, wanted.view.rank() - wanted.from_last, wanted.label, wanted.extent, wanted.origin));
    }
    if (views.c.present()) {
        const View &c = views.c;
        ATTILE_TRY(check_extent(call, c, c.rank() - 2, "m", m, "the rows of the output"));
        ATTILE_TRY(check_extent(call, c, c.rank() - 1, "n", n, "the columns of the output"));
    }
    // Batch axes: the matrix axes agree by now, so that they pass this check whatever they are.
    for (const View *view : {&a, &b, &views.c}) {
        if (!view->present() || view->rank() == 2) continue;
        int64_t target[4] = {problem.batch[0], problem.batch[1], view->shape(view->rank() - 2), view->shape(view->rank() - 1)};
        ATTILE_TRY(check_broadcast(call, *view, target, 4, "the batch axes of the output"));
    }
    if (views.bias.present()) {
        const bool along_columns = args.bias_axis == ATTILE_BIAS_COLUMNS;
        ATTILE_TRY(check_extent(call, views.bias, views.bias.rank() - 1, along_columns ? "n" : "m", along_columns ? n : m,
                                along_columns ? "the columns of the output" : "the rows of the output"));
        int64_t target[3] = {problem.batch[0], problem.batch[1], along_columns ? n : m};
        ATTILE_TRY(check_broadcast(call, views.bias, target, 3, "the batch axes of the output"));
        // Axes x, y, m, n: the bias has one of the last two.
        problem.bias = make_aligned_operand(views.bias, 2);
        if (along_columns) {
            problem.bias.stride[3] = problem.bias.stride[2];
            problem.bias.stride[2] = 0;
        }
    }
    ATTILE_TRY(check_blocks(call, views.a_scale, {"m", m, false}, {"k", k, true}, problem.batch, problem.a_group));
    ATTILE_TRY(check_blocks(call, views.b_scale, {"k", k, true}, {"n", n, false}, problem.batch, problem.b_group));
    if (views.d_scale.present()) {
        const int64_t target[4] = {problem.batch[0], problem.batch[1], m, n};
        ATTILE_TRY(check_broadcast(call, views.d_scale, target, 4, "the axes of the output"));
    }
    gemm->nothing_to_do = views.d.empty;
    problem.k = is_zero_in(factor_dtype(args), args.alpha) ? 0 : k;
    if (problem.k == 0) {  // Scales are not read, and not handed over.
        for (int64_t *group : {problem.a_group, problem.b_group}) group[0] = group[1] = 0;
    }
    return ATTILE_OK;
}

int32_t check_aliasing(const Call &call, const GemmViews &views, const attile_launch &launch) {
    for (const View *input : {&views.a, &views.b, &views.bias, &views.a_scale, &views.b_scale, &views.b_zero, &views.d_scale}) {
        ATTILE_TRY(refuse_overlap(call, views.d, *input));
    }
    ATTILE_TRY(refuse_partial_overlap(call, views.d, views.c));
    const View *all[] = {&views.a,       &views.b,       &views.c,      &views.d,      &views.bias,
                         &views.a_scale, &views.b_scale, &views.b_zero, &views.d_scale};
    return check_workspace_apart(call, launch, all, 9);
}

int32_t prepare(const Call &call, const attile_gemm_args *args, GemmProblem *gemm) {
    attile_gemm_args full;
    return read_gemm(call, args, &full, gemm);
}

// Products without anything beside a, b and d; their batch axes are those of d.
bool plain_problem(const attile_gemm_args *args, attile_gemm_problem *problem) {
    // Nothing behind the size is there to be read. Programs of the first release have no scales.
    if (args == nullptr || (args->struct_size != sizeof *args && args->struct_size != kFirstGemmSize)) return false;
    if (args->flags != 0 || args->next != nullptr) return false;
    if (args->struct_size == sizeof *args) {
        for (const attile_tensor *scale : {&args->a_scale, &args->b_scale, &args->b_zero, &args->d_scale})
            if (!is_absent(*scale)) return false;
    }
    if (args->workspace != nullptr || args->workspace_bytes != 0 || args->beta != 0.0 || !plain_factors(args->d.dtype, args->alpha, 0.0))
        return false;
    if (!is_absent(args->bias) || args->bias_axis != ATTILE_BIAS_NONE || args->activation != ATTILE_ACTIVATION_NONE) return false;
    const attile_tensor &a = args->a, &b = args->b, &d = args->d;
    const int32_t rank = d.rank;
    if (rank < 2 || rank > 4 || a.rank != rank || b.rank != rank || a.dtype != d.dtype || b.dtype != d.dtype) return false;
    if ((dtype_bit(d.dtype) & kFloats) == 0 || log_level() >= ATTILE_LOG_DEBUG) return false;
    const int64_t m = d.shape[rank - 2], n = d.shape[rank - 1], k = a.shape[rank - 1];
    if (a.shape[rank - 2] != m || b.shape[rank - 1] != n || b.shape[rank - 2] != k) return false;
    for (int32_t i = 0; i < rank - 2; ++i) {
        if (a.shape[i] != d.shape[i] || b.shape[i] != d.shape[i]) return false;
    }
    PlainSpan a_span, b_span, d_span;
    if (!plain_operand(a.data, a.dtype, rank, a.shape, a.stride, &problem->a, &a_span) ||
        !plain_operand(b.data, b.dtype, rank, b.shape, b.stride, &problem->b, &b_span) ||
        !plain_operand(d.data, d.dtype, rank, d.shape, d.stride, &problem->d, &d_span)) {
        return false;
    }
    if (d_span.meets(a_span) || d_span.meets(b_span) || !plain_output(rank, d.shape, d.stride)) return false;
    finish_plain_problem(d.dtype, m, n, k, args->alpha, 0.0, problem);
    problem->launch.stream = args->stream;
    if (rank == 4) problem->batch[0] = d.shape[0];
    if (rank >= 3) problem->batch[1] = d.shape[rank - 3];
    return true;
}

}  // namespace

DtypeSet types_of_b(DtypeSet a) { return a == kI8 ? kI8 : (a & kFloats8) != 0 ? kFloats8 : a == kF64 ? kF64 : a | kNarrow | kFourBits; }
DtypeSet types_of_d(DtypeSet a) {
    if ((a & kNarrow) != 0) return kF32 | kF16 | kBf16 | (a == kI8 ? kI32 : kNoDtype);
    return a | ((a & (kF16 | kBf16)) != 0 ? kF32 : kNoDtype);
}
DtypeSet type_of_c(int32_t d) { return (dtype_bit(d) & kNarrow) != 0 ? kF32 : dtype_bit(d); }

int32_t check_gemm_factors(const Call &call, int32_t dtype, double alpha, double beta) {
    const struct {
        const char *name;
        double value;
    } factors[] = {{"alpha", alpha}, {"beta", beta}};
    for (const auto &factor : factors) {
        if (!is_finite_in(dtype, factor.value)) {
            return fail(ATTILE_ERROR_INVALID_VALUE, "%s: %s is %g; expected %s", call.operation, factor.name, factor.value,
                        finite_in_text(dtype));
        }
    }
    return ATTILE_OK;
}

int32_t check_activation(const Call &call, int32_t activation) {
    if (activation >= ATTILE_ACTIVATION_NONE && activation <= ATTILE_ACTIVATION_SILU) return ATTILE_OK;
    return fail(ATTILE_ERROR_INVALID_VALUE, "%s: activation is %d; expected an ATTILE_ACTIVATION_ constant", call.operation, activation);
}

int32_t check_gemm_scalars(const Call &call, const attile_gemm_args &args) {
    ATTILE_TRY(check_gemm_factors(call, factor_dtype(args), args.alpha, args.beta));
    if (args.bias_axis < ATTILE_BIAS_NONE || args.bias_axis > ATTILE_BIAS_ROWS) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: bias_axis is %d; expected an ATTILE_BIAS_ constant", call.operation, args.bias_axis);
    }
    return check_activation(call, args.activation);
}

int32_t read_gemm(const Call &call, const attile_gemm_args *args, attile_gemm_args *full, GemmProblem *gemm) {
    ATTILE_TRY(read_args(call.operation, "args", kFirstGemmSize, kGemmFlags, args, full));
    return normalise_gemm(call, *full, "d", gemm);
}

int32_t normalise_gemm(const Call &call, const attile_gemm_args &args, const char *output_name, GemmProblem *gemm) {
    attile_gemm_problem &problem = gemm->problem;
    problem = {};
    problem.struct_size = sizeof problem;
    GemmViews views;
    ATTILE_TRY(make_launch(call, args.stream, args.workspace, args.workspace_bytes, args.flags, &problem.launch));
    ATTILE_TRY(check_gemm_scalars(call, args));
    ATTILE_TRY(check_operands(call, args, output_name, &views));
    ATTILE_TRY(check_shapes(call, views, args, gemm));
    ATTILE_TRY(check_aliasing(call, views, problem.launch));
    problem.compute = factor_dtype(args) == ATTILE_F64 ? ATTILE_F64 : args.a.dtype == ATTILE_I8 ? ATTILE_I32 : ATTILE_F32;
    problem.a = make_aligned_operand(views.a);
    problem.b = make_aligned_operand(views.b);
    problem.c = make_aligned_operand(views.c);
    problem.d = make_aligned_operand(views.d);
    if (problem.k > 0) {  // else nothing is scaled
        problem.a_scale = make_aligned_operand(views.a_scale);
        problem.b_scale = make_aligned_operand(views.b_scale);
        problem.b_zero = make_aligned_operand(views.b_zero);
    }
    problem.d_scale = make_aligned_operand(views.d_scale);
    problem.alpha = is_zero_in(factor_dtype(args), args.alpha) ? 0.0 : args.alpha;
    problem.beta = is_zero_in(factor_dtype(args), args.beta) ? 0.0 : args.beta;
    problem.activation = args.activation;
    return ATTILE_OK;
}

int32_t check_version(const Call &call, const Context *context, const attile_gemm_interface *interface,
                      const attile_gemm_problem &problem) {
    if (is_exact(problem.launch.flags)) {
        ATTILE_TRY(check_exact(call, problem));
        return check_exact_known(call, context, interface, problem.launch, 3);
    }
    const DtypeSet types = dtype_bit(problem.a.dtype) | dtype_bit(problem.b.dtype) | dtype_bit(problem.d.dtype);
    if ((types & (kNarrow | kFourBits)) == 0) return ATTILE_OK;
    if (interface == nullptr || interface->version >= 2) return ATTILE_OK;
    return fail(ATTILE_ERROR_UNSUPPORTED_DTYPE, "%s: the backend '%s' is too old to know numbers of 8 bits", call.operation,
                context->backend_name);
}

}  // namespace attile::core

using namespace attile::core;

extern "C" {

int32_t attile_gemm(attile_context *handle, const attile_gemm_args *args) {
    return on_context(handle, [&](Context *context) -> int32_t {
        const Call call = {"gemm"};
        attile_gemm_problem plain;
        if (plain_problem(args, &plain)) return run_problem(call, context, context->interfaces.gemm, plain, plain.launch, false);
        GemmProblem gemm;
        ATTILE_TRY(prepare(call, args, &gemm));
        ATTILE_TRY(check_version(call, context, context->interfaces.gemm, gemm.problem));
        return run_problem(call, context, context->interfaces.gemm, gemm.problem, gemm.problem.launch, gemm.nothing_to_do);
    });
}

int32_t attile_gemm_query(attile_context *handle, const attile_gemm_args *args, attile_support *support) {
    return on_context(handle, [&](Context *context) -> int32_t {
        const Call call = {"gemm", true};
        GemmProblem gemm;
        ATTILE_TRY(prepare(call, args, &gemm));
        ATTILE_TRY(check_output(call.operation, "support", kSupportFirstSize, support));
        const auto check = [&] { return check_version(call, context, context->interfaces.gemm, gemm.problem); };
        if (answer_failure(check, support)) return ATTILE_OK;
        return query_problem(call, context, context->interfaces.gemm, gemm.problem, gemm.nothing_to_do, support);
    });
}

}  // extern "C"
