// SPDX-License-Identifier: Apache-2.0
// attile_attention: validate, normalise, forward.
#include "alias.h"
#include "attention_problem.h"

namespace attile::core {
namespace {

int32_t check_aliasing(const Call &call, const AttentionViews &views, const attile_launch &launch) {
    const View *all[kAttentionInputs + 2];
    list_attention_inputs(views, all);
    for (int32_t i = 0; i < kAttentionInputs; ++i) {
        ATTILE_TRY(refuse_overlap(call, views.o, *all[i]));
        ATTILE_TRY(refuse_overlap(call, views.lse, *all[i]));
    }
    ATTILE_TRY(refuse_overlap(call, views.lse, views.o));
    all[kAttentionInputs] = &views.o;
    all[kAttentionInputs + 1] = &views.lse;
    return check_workspace_apart(call, launch, all, kAttentionInputs + 2);
}

int32_t prepare(const Call &call, const attile_attention_args *args, attile_attention_problem *problem, bool *nothing_to_do) {
    attile_attention_args full;
    return read_attention(call, args, &full, problem, nothing_to_do);
}

}  // namespace

int32_t read_attention(const Call &call, const attile_attention_args *args, attile_attention_args *full, attile_attention_problem *problem,
                       bool *nothing_to_do) {
    ATTILE_TRY(read_args(call.operation, "args", kAttentionFirstSize, kForwardFlags, args, full));
    attile_launch launch;
    ATTILE_TRY(make_launch(call, full->stream, full->workspace, full->workspace_bytes, full->flags, &launch));
    AttentionViews views;
    ATTILE_TRY(normalise_attention(call, *full, AttentionPass::kForward, &views, problem));
    problem->launch = launch;
    // No sequences: the rows of o belong to none of them.
    *nothing_to_do = (views.o.empty && views.lse.empty) || problem->batch == 0;
    return check_aliasing(call, views, launch);
}

}  // namespace attile::core

using namespace attile::core;

extern "C" {

int32_t attile_attention(attile_context *handle, const attile_attention_args *args) {
    return on_context(handle, [&](Context *context) -> int32_t {
        const Call call = {"attention"};
        attile_attention_problem problem;
        bool nothing_to_do = false;
        ATTILE_TRY(prepare(call, args, &problem, &nothing_to_do));
        ATTILE_TRY(check_version(call, context, context->interfaces.attention, problem));
        return run_problem(call, context, context->interfaces.attention, problem, problem.launch, nothing_to_do);
    });
}

int32_t attile_attention_query(attile_context *handle, const attile_attention_args *args, attile_support *support) {
    return on_context(handle, [&](Context *context) -> int32_t {
        const Call call = {"attention", true};
        attile_attention_problem problem;
        bool nothing_to_do = false;
        ATTILE_TRY(prepare(call, args, &problem, &nothing_to_do));
        ATTILE_TRY(check_output(call.operation, "support", kSupportFirstSize, support));
        const auto check = [&] { return check_version(call, context, context->interfaces.attention, problem); };
        if (answer_failure(check, support)) return ATTILE_OK;
        return query_problem(call, context, context->interfaces.attention, problem, nothing_to_do, support);
    });
}

}  // extern "C"
