// SPDX-License-Identifier: Apache-2.0
// attile_attention_merge: validate, normalise, forward.
#include <memory>

#include "alias.h"
#include "operation.h"

namespace attile::core {
namespace {

constexpr uint32_t kFirstMergeSize = ATTILE_SIZE_UP_TO(attile_attention_merge_args, lse);
constexpr uint32_t kMergeFlags = ATTILE_FLAG_BATCH_INVARIANT | ATTILE_FLAG_NO_ALLOC;

// As many parts as are common need no allocation.
constexpr int64_t kInlineParts = 16;
// A bound that no use comes near, so that a garbage count is told from a real one.
constexpr int64_t kMostParts = int64_t{1} << 24;

struct MergeProblem {
    attile_attention_merge_problem problem;
    attile_operand inline_operands[2 * kInlineParts];
    std::unique_ptr<attile_operand[]> operands;
    bool nothing_to_do;
};

struct MergeViews {
    View o, lse;
};

// f32, of f64 parts f64.
DtypeSet lse_type(DtypeSet part_type) { return part_type == kF64 ? kF64 : kF32; }

// The parts' type or any narrower.
DtypeSet output_types(DtypeSet part_type) {
    if (part_type == kF64) return kFloats;
    return part_type == kF32 ? kF32 | kF16 | kBf16 : part_type;
}

int32_t check_outputs(const Call &call, const attile_attention_merge_args &args, DtypeSet part_type, MergeViews *views) {
    ATTILE_TRY(check_tensor(call, "o", args.o, {output_types(part_type), 4, 4, true}, &views->o));
    ATTILE_TRY(check_optional(call, "lse", args.lse, {lse_type(part_type), 3, 3, true}, &views->lse));
    if (!views->lse.present()) return ATTILE_OK;
    ATTILE_TRY(check_extent(call, views->lse, 0, "batch", args.o.shape[0], "o.shape[0] (batch)"));
    ATTILE_TRY(check_extent(call, views->lse, 1, "heads", args.o.shape[1], "o.shape[1] (heads)"));
    ATTILE_TRY(check_extent(call, views->lse, 2, "len", args.o.shape[2], "o.shape[2] (len)"));
    return refuse_overlap(call, views->lse, views->o);
}

// One part: its tensors, and how they lie to the outputs. `same_o` and `same_lse` count the parts that are the outputs' own views.
int32_t check_part(const Call &call, const View &o_part, const View &lse_part, const MergeViews &views, int64_t *same_o,
                   int64_t *same_lse) {
    static constexpr const char *kLabels[4] = {"batch", "heads", "len", "head_dim_v"};
    static constexpr const char *kOrigins[4] = {"o.shape[0] (batch)", "o.shape[1] (heads)", "o.shape[2] (len)", "o.shape[3] (head_dim_v)"};
    for (int32_t i = 0; i < 4; ++i) ATTILE_TRY(check_extent(call, o_part, i, kLabels[i], views.o.shape(i), kOrigins[i]));
    for (int32_t i = 0; i < 3; ++i) ATTILE_TRY(check_extent(call, lse_part, i, kLabels[i], views.o.shape(i), kOrigins[i]));
    bool same = false;
    ATTILE_TRY(refuse_partial_overlap(call, views.o, o_part, &same));
    // A second part in the output's place would be read after the first had been overwritten.
    if (same && ++*same_o > 1) return refuse_alias(call, views.o, o_part);
    ATTILE_TRY(refuse_overlap(call, views.o, lse_part));
    ATTILE_TRY(refuse_partial_overlap(call, views.lse, lse_part, &same));
    if (same && ++*same_lse > 1) return refuse_alias(call, views.lse, lse_part);
    return refuse_overlap(call, views.lse, o_part);
}

int32_t prepare(const Call &call, const attile_attention_merge_args *args, MergeProblem *merge) {
    attile_attention_merge_args full;
    ATTILE_TRY(read_args(call.operation, "args", kFirstMergeSize, kMergeFlags, args, &full));
    attile_attention_merge_problem &problem = merge->problem;
    problem = {};
    problem.struct_size = sizeof problem;
    ATTILE_TRY(make_launch(call, full.stream, full.workspace, full.workspace_bytes, full.flags, &problem.launch));
    if (full.parts < 1 || full.parts > kMostParts) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: parts is %lld; expected 1 to %lld", call.operation, static_cast<long long>(full.parts),
                    static_cast<long long>(kMostParts));
    }
    if (full.o_parts == nullptr) return fail(ATTILE_ERROR_NULL_ARGUMENT, "%s: o_parts is NULL", call.operation);
    if (full.lse_parts == nullptr) return fail(ATTILE_ERROR_NULL_ARGUMENT, "%s: lse_parts is NULL", call.operation);

    attile_operand *operands = merge->inline_operands;
    if (full.parts > kInlineParts) {
        merge->operands = std::make_unique<attile_operand[]>(static_cast<size_t>(2 * full.parts));
        operands = merge->operands.get();
    }
    View first;
    ATTILE_TRY(check_tensor(call, {"o_parts", 0}, full.o_parts[0], {kFloats, 4, 4}, &first));
    const DtypeSet part_type = dtype_bit(full.o_parts[0].dtype);
    MergeViews views;
    ATTILE_TRY(check_outputs(call, full, part_type, &views));
    const View *outputs[2] = {&views.o, &views.lse};
    ATTILE_TRY(check_workspace_apart(call, problem.launch, outputs, 2));
    int64_t same_o = 0, same_lse = 0;
    for (int64_t p = 0; p < full.parts; ++p) {
        View o_part, lse_part;
        ATTILE_TRY(check_tensor(call, {"o_parts", p}, full.o_parts[p], {part_type, 4, 4}, &o_part));
        ATTILE_TRY(check_tensor(call, {"lse_parts", p}, full.lse_parts[p], {lse_type(part_type), 3, 3}, &lse_part));
        ATTILE_TRY(check_part(call, o_part, lse_part, views, &same_o, &same_lse));
        const View *parts[2] = {&o_part, &lse_part};
        ATTILE_TRY(check_workspace_apart(call, problem.launch, parts, 2));
        operands[p] = make_aligned_operand(o_part);
        operands[full.parts + p] = make_operand(lse_part, 0, 1, 2);
    }

    problem.compute = part_type == kF64 ? ATTILE_F64 : ATTILE_F32;
    problem.batch = views.o.shape(0);
    problem.heads = views.o.shape(1);
    problem.len = views.o.shape(2);
    problem.head_dim_v = views.o.shape(3);
    problem.parts = full.parts;
    problem.o_parts = operands;
    problem.lse_parts = operands + full.parts;
    problem.o = make_aligned_operand(views.o);
    problem.lse = make_operand(views.lse, 0, 1, 2);
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
        return run_problem(call, context, context->interfaces.attention_merge, merge.problem, merge.problem.launch, merge.nothing_to_do);
    });
}

int32_t attile_attention_merge_query(attile_context *handle, const attile_attention_merge_args *args, attile_support *support) {
    return on_context(handle, [&](Context *context) -> int32_t {
        const Call call = {"attention_merge", true};
        MergeProblem merge;
        ATTILE_TRY(prepare(call, args, &merge));
        ATTILE_TRY(check_output(call.operation, "support", kSupportFirstSize, support));
        return query_problem(call, context, context->interfaces.attention_merge, merge.problem, merge.nothing_to_do, support);
    });
}

}  // extern "C"
