// SPDX-License-Identifier: Apache-2.0
// attile_attention_merge: validate, normalise, forward.
#include "alias.h"
#include "merge_problem.h"

namespace attile::core {
namespace {

// A bound that no use comes near, so that a garbage count is told from a real one.
constexpr int64_t kMostParts = int64_t{1} << 24;

struct MergeProblem {
    attile_attention_merge_problem problem;
    PerPart<attile_operand, 2 * kInlineParts> operands;
    bool nothing_to_do;
};

// The parts' type or any narrower.
DtypeSet output_types(DtypeSet part_type) {
    if (part_type == kF64) return kFloats;
    return part_type == kF32 ? kF32 | kF16 | kBf16 : part_type;
}

// o and lse, which gradients read and both need.
int32_t check_outputs(const Call &call, const attile_attention_merge_args &args, DtypeSet part_type, MergePass pass, MergeViews *views) {
    const bool writes = pass == MergePass::kForward;
    const TensorRule lse_rule = {merge_lse_type(part_type), 3, 3, writes};
    ATTILE_TRY(check_tensor(call, "o", args.o, {output_types(part_type), 4, 4, writes}, &views->o));
    if (writes) {
        ATTILE_TRY(check_optional(call, "lse", args.lse, lse_rule, &views->lse));
    } else {
        ATTILE_TRY(check_tensor(call, "lse", args.lse, lse_rule, &views->lse));
    }
    if (!views->lse.present()) return ATTILE_OK;
    ATTILE_TRY(check_extent(call, views->lse, 0, "batch", args.o.shape[0], "o.shape[0] (batch)"));
    ATTILE_TRY(check_extent(call, views->lse, 1, "heads", args.o.shape[1], "o.shape[1] (heads)"));
    ATTILE_TRY(check_extent(call, views->lse, 2, "len", args.o.shape[2], "o.shape[2] (len)"));
    return refuse_overlap(call, views->lse, views->o);
}

// One part: its tensors, and how they lie to the outputs. `same_o` and `same_lse` count the parts that are the outputs' own views.
int32_t check_part(const Call &call, const View &o_part, const View &lse_part, const MergeViews &views, MergePass pass, int64_t *same_o,
                   int64_t *same_lse) {
    static constexpr const char *kLabels[4] = {"batch", "heads", "len", "head_dim_v"};
    static constexpr const char *kOrigins[4] = {"o.shape[0] (batch)", "o.shape[1] (heads)", "o.shape[2] (len)", "o.shape[3] (head_dim_v)"};
    for (int32_t i = 0; i < 4; ++i) ATTILE_TRY(check_extent(call, o_part, i, kLabels[i], views.o.shape(i), kOrigins[i]));
    for (int32_t i = 0; i < 3; ++i) ATTILE_TRY(check_extent(call, lse_part, i, kLabels[i], views.o.shape(i), kOrigins[i]));
    bool same = false;
    ATTILE_TRY(refuse_partial_overlap(call, views.o, o_part, &same));
    // A second part in the output's place would be read after the first had been overwritten; gradients are to read even the first.
    if (same && (pass == MergePass::kBackward || ++*same_o > 1)) return refuse_alias(call, views.o, o_part);
    ATTILE_TRY(refuse_overlap(call, views.o, lse_part));
    ATTILE_TRY(refuse_partial_overlap(call, views.lse, lse_part, &same));
    if (same && (pass == MergePass::kBackward || ++*same_lse > 1)) return refuse_alias(call, views.lse, lse_part);
    return refuse_overlap(call, views.lse, o_part);
}

}  // namespace

int32_t check_part_count(const Call &call, const attile_attention_merge_args &args) {
    if (args.parts < 1 || args.parts > kMostParts) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: %sparts is %lld; expected 1 to %lld", call.operation, call.prefix,
                    static_cast<long long>(args.parts), static_cast<long long>(kMostParts));
    }
    if (args.o_parts == nullptr) return fail(ATTILE_ERROR_NULL_ARGUMENT, "%s: %so_parts is NULL", call.operation, call.prefix);
    if (args.lse_parts == nullptr) return fail(ATTILE_ERROR_NULL_ARGUMENT, "%s: %slse_parts is NULL", call.operation, call.prefix);
    return ATTILE_OK;
}

int32_t normalise_merge(const Call &call, const attile_attention_merge_args &args, const attile_launch &launch, MergePass pass,
                        attile_operand *operands, View *part_views, MergeViews *views, attile_attention_merge_problem *problem) {
    View first;
    ATTILE_TRY(check_tensor(call, {"o_parts", 0}, args.o_parts[0], {kFloats, 4, 4}, &first));
    const DtypeSet part_type = dtype_bit(args.o_parts[0].dtype);
    ATTILE_TRY(check_outputs(call, args, part_type, pass, views));
    const View *outputs[2] = {&views->o, &views->lse};
    ATTILE_TRY(check_workspace_apart(call, launch, outputs, 2));
    int64_t same_o = 0, same_lse = 0;
    for (int64_t p = 0; p < args.parts; ++p) {
        View o_part, lse_part;
        ATTILE_TRY(check_tensor(call, {"o_parts", p}, args.o_parts[p], {part_type, 4, 4}, &o_part));
        ATTILE_TRY(check_tensor(call, {"lse_parts", p}, args.lse_parts[p], {merge_lse_type(part_type), 3, 3}, &lse_part));
        ATTILE_TRY(check_part(call, o_part, lse_part, *views, pass, &same_o, &same_lse));
        const View *parts[2] = {&o_part, &lse_part};
        ATTILE_TRY(check_workspace_apart(call, launch, parts, 2));
        operands[p] = make_aligned_operand(o_part);
        operands[args.parts + p] = make_operand(lse_part, 0, 1, 2);
        if (part_views == nullptr) continue;
        part_views[p] = o_part;
        part_views[args.parts + p] = lse_part;
    }
    problem->compute = part_type == kF64 || is_exact(launch.flags) ? ATTILE_F64 : ATTILE_F32;
    problem->batch = views->o.shape(0);
    problem->heads = views->o.shape(1);
    problem->len = views->o.shape(2);
    problem->head_dim_v = views->o.shape(3);
    problem->parts = args.parts;
    problem->o_parts = operands;
    problem->lse_parts = operands + args.parts;
    problem->o = make_aligned_operand(views->o);
    problem->lse = make_operand(views->lse, 0, 1, 2);
    return ATTILE_OK;
}

namespace {

int32_t prepare(const Call &call, const attile_attention_merge_args *args, MergeProblem *merge) {
    attile_attention_merge_args full;
    ATTILE_TRY(read_args(call.operation, "args", kMergeFirstSize, kForwardMergeFlags, args, &full));
    attile_attention_merge_problem &problem = merge->problem;
    problem = {};
    problem.struct_size = sizeof problem;
    ATTILE_TRY(make_launch(call, full.stream, full.workspace, full.workspace_bytes, full.flags, &problem.launch));
    ATTILE_TRY(check_part_count(call, full));
    attile_operand *operands = merge->operands.take(2 * full.parts);
    MergeViews views;
    ATTILE_TRY(normalise_merge(call, full, problem.launch, MergePass::kForward, operands, nullptr, &views, &problem));
    merge->nothing_to_do = views.o.empty && views.lse.empty;
    return ATTILE_OK;
}

}  // namespace
}  // namespace attile::core

using namespace attile::core;

extern "C" {

int32_t attile_attention_merge(attile_context *handle, const attile_attention_merge_args *args) {
    return on_context(handle, [&](Context *context) -> int32_t {
        const Call call = {"attention_merge"};
        MergeProblem merge;
        ATTILE_TRY(prepare(call, args, &merge));
        ATTILE_TRY(check_exact_known(call, context, context->interfaces.attention_merge, merge.problem.launch, kExactVersion));
        return run_problem(call, context, context->interfaces.attention_merge, merge.problem, merge.problem.launch, merge.nothing_to_do);
    });
}

int32_t attile_attention_merge_query(attile_context *handle, const attile_attention_merge_args *args, attile_support *support) {
    return on_context(handle, [&](Context *context) -> int32_t {
        const Call call = {"attention_merge", true};
        MergeProblem merge;
        ATTILE_TRY(prepare(call, args, &merge));
        ATTILE_TRY(check_output(call.operation, "support", kSupportFirstSize, support));
        const attile_launch &launch = merge.problem.launch;
        const auto check = [&] { return check_exact_known(call, context, context->interfaces.attention_merge, launch, kExactVersion); };
        if (answer_failure(check, support)) return ATTILE_OK;
        return query_problem(call, context, context->interfaces.attention_merge, merge.problem, merge.nothing_to_do, support);
    });
}

}  // extern "C"
