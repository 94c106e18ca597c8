// SPDX-License-Identifier: Apache-2.0
// attile_attention_merge_backward: validate, normalise, forward.
#include <algorithm>

#include "alias.h"
#include "merge_problem.h"

namespace attile::core {
namespace {

constexpr uint32_t kFirstSize =
    ATTILE_SIZE_UP_TO(attile_attention_merge_backward_args, dlse_parts);  // NOLINT(bugprone-sizeof-expression): the pointer's own size

// Tensors of a call beside those of its parts: o, lse, dout and dlse.
constexpr int64_t kWholeViews = 4;

struct GradientProblem {
    attile_attention_merge_backward_problem problem;
    PerPart<attile_operand, 4 * kInlineParts> operands;
    bool nothing_to_do;
};

struct GradientViews {
    MergeViews merged;
    View dout, dlse;
    // Of o_parts, lse_parts, do_parts, dlse_parts; the last two are outputs.
    PerPart<View, 4 * kInlineParts> place;
    View *parts = nullptr;
};

// The shape of the forward call's o, or of its lse.
int32_t check_like_merged(const Call &call, const View &view, const View &o) {
    static constexpr const char *kLabels[4] = {"batch", "heads", "len", "head_dim_v"};
    static constexpr const char *kOrigins[4] = {"forward->o.shape[0]", "forward->o.shape[1]", "forward->o.shape[2]", "forward->o.shape[3]"};
    for (int32_t i = 0; i < view.rank(); ++i) ATTILE_TRY(check_extent(call, view, i, kLabels[i], o.shape(i), kOrigins[i]));
    return ATTILE_OK;
}

int32_t check_gradients(const Call &call, const attile_attention_merge_backward_args &args, const attile_attention_merge_args &forward,
                        GradientViews *views) {
    const DtypeSet part_type = dtype_bit(forward.o_parts[0].dtype), lse_type = merge_lse_type(part_type);
    const View &o = views->merged.o;
    ATTILE_TRY(check_tensor(call, "dout", args.dout, {part_type | dtype_bit(forward.o.dtype), 4, 4}, &views->dout));
    ATTILE_TRY(check_like_merged(call, views->dout, o));
    ATTILE_TRY(check_optional(call, "dlse", args.dlse, {lse_type, 3, 3}, &views->dlse));
    if (views->dlse.present()) ATTILE_TRY(check_like_merged(call, views->dlse, o));
    if (args.do_parts == nullptr) return fail(ATTILE_ERROR_NULL_ARGUMENT, "%s: do_parts is NULL", call.operation);
    if (args.dlse_parts == nullptr) return fail(ATTILE_ERROR_NULL_ARGUMENT, "%s: dlse_parts is NULL", call.operation);
    View *const do_parts = views->parts + 2 * forward.parts, *const dlse_parts = do_parts + forward.parts;
    DtypeSet do_type = part_type | kF32;
    for (int64_t p = 0; p < forward.parts; ++p) {
        ATTILE_TRY(check_tensor(call, {"do_parts", p}, args.do_parts[p], {do_type, 4, 4, true}, &do_parts[p]));
        ATTILE_TRY(check_like_merged(call, do_parts[p], o));
        ATTILE_TRY(check_tensor(call, {"dlse_parts", p}, args.dlse_parts[p], {lse_type, 3, 3, true}, &dlse_parts[p]));
        ATTILE_TRY(check_like_merged(call, dlse_parts[p], o));
        do_type = dtype_bit(args.do_parts[0].dtype);
    }
    return ATTILE_OK;
}

// Refuses an output that shares memory with any other tensor. Views are compared in the order of their first bytes, each with those that
// reach as far, so that many parts one after another in memory cost no square of their number.
int32_t refuse_overlaps(const Call &call, const GradientViews &views, int64_t parts) {
    const View *const outputs = views.parts + 2 * parts, *const end = views.parts + 4 * parts;
    const auto is_output = [&](const View *view) { return view >= outputs && view < end; };
    PerPart<const View *, 4 * kInlineParts + kWholeViews> place;
    const View **const sorted = place.take(4 * parts + kWholeViews);
    int64_t count = 0;
    const auto add = [&](const View &view) {
        if (view.located && !view.empty) sorted[count++] = &view;
    };
    for (const View *whole : {&views.merged.o, &views.merged.lse, &views.dout, &views.dlse}) add(*whole);
    for (int64_t i = 0; i < 4 * parts; ++i) add(views.parts[i]);
    std::sort(sorted, sorted + count, [](const View *one, const View *other) { return one->low < other->low; });
    int64_t reaching = 0;  // Those seen before that may reach as far are the first of `sorted`.
    for (int64_t i = 0; i < count; ++i) {
        const View *const view = sorted[i];
        int64_t kept = 0;
        for (int64_t j = 0; j < reaching; ++j) {
            const View *const other = sorted[j];
            if (other->high <= view->low) continue;
            sorted[kept++] = other;
            if (is_output(view)) {
                ATTILE_TRY(refuse_overlap(call, *view, *other));
            } else if (is_output(other)) {
                ATTILE_TRY(refuse_overlap(call, *other, *view));
            }
        }
        sorted[kept] = view;
        reaching = kept + 1;
    }
    return ATTILE_OK;
}

int32_t prepare(const Call &call, const attile_attention_merge_backward_args *args, GradientProblem *gradient) {
    attile_attention_merge_backward_args full;
    ATTILE_TRY(read_args(call.operation, "args", kFirstSize, kMergeFlags, args, &full));
    attile_attention_merge_args forward;
    ATTILE_TRY(read_args(call.operation, "args->forward", kMergeFirstSize, kMergeFlags, full.forward, &forward));
    attile_attention_merge_backward_problem &problem = gradient->problem;
    problem = {};
    problem.struct_size = sizeof problem;
    ATTILE_TRY(make_launch(call, full.stream, full.workspace, full.workspace_bytes, full.flags, &problem.launch));
    const Call forward_call = {call.operation, call.query, "forward->"};
    ATTILE_TRY(check_part_count(forward_call, forward));
    const int64_t parts = forward.parts;
    attile_operand *const operands = gradient->operands.take(4 * parts);
    GradientViews views;
    views.parts = views.place.take(4 * parts);
    attile_attention_merge_problem merge = {};
    ATTILE_TRY(normalise_merge(forward_call, forward, problem.launch, MergePass::kBackward, operands, views.parts, &views.merged, &merge));
    ATTILE_TRY(check_gradients(call, full, forward, &views));
    ATTILE_TRY(refuse_overlaps(call, views, parts));
    const View *const given[2] = {&views.dout, &views.dlse};
    ATTILE_TRY(check_workspace_apart(call, problem.launch, given, 2));

    gradient->nothing_to_do = true;
    for (int64_t i = 2 * parts; i < 4 * parts; ++i) {
        const View *const output = &views.parts[i];
        ATTILE_TRY(check_workspace_apart(call, problem.launch, &output, 1));
        operands[i] = i < 3 * parts ? make_aligned_operand(*output) : make_operand(*output, 0, 1, 2);
        gradient->nothing_to_do = gradient->nothing_to_do && output->empty;
    }
    problem.compute = merge.compute;
    problem.batch = merge.batch;
    problem.heads = merge.heads;
    problem.len = merge.len;
    problem.head_dim_v = merge.head_dim_v;
    problem.parts = parts;
    problem.o_parts = merge.o_parts;
    problem.lse_parts = merge.lse_parts;
    problem.o = merge.o;
    problem.lse = merge.lse;
    problem.dout = make_aligned_operand(views.dout);
    problem.dlse = make_operand(views.dlse, 0, 1, 2);
    problem.do_parts = operands + 2 * parts;
    problem.dlse_parts = operands + 3 * parts;
    return ATTILE_OK;
}

}  // namespace
}  // namespace attile::core

using namespace attile::core;

extern "C" {

int32_t attile_attention_merge_backward(attile_context *handle, const attile_attention_merge_backward_args *args) {
    return on_context(handle, [&](Context *context) -> int32_t {
        const Call call = {"attention_merge_backward"};
        GradientProblem gradient;
        ATTILE_TRY(prepare(call, args, &gradient));
        return run_problem(call, context, context->interfaces.attention_merge_backward, gradient.problem, gradient.problem.launch,
                           gradient.nothing_to_do);
    });
}

int32_t attile_attention_merge_backward_query(attile_context *handle, const attile_attention_merge_backward_args *args,
                                              attile_support *support) {
    return on_context(handle, [&](Context *context) -> int32_t {
        const Call call = {"attention_merge_backward", true};
        GradientProblem gradient;
        ATTILE_TRY(prepare(call, args, &gradient));
        ATTILE_TRY(check_output(call.operation, "support", kSupportFirstSize, support));
        return query_problem(call, context, context->interfaces.attention_merge_backward, gradient.problem, gradient.nothing_to_do,
                             support);
    });
}

}  // extern "C"
