// SPDX-License-Identifier: Apache-2.0
// attile_attention_backward: validate, normalise, forward.
#include "alias.h"
#include "attention_problem.h"

namespace attile::core {
namespace {

struct BackwardProblem {
    attile_attention_problem forward;
    attile_attention_backward_problem problem;
    bool nothing_to_do;
    bool paged;
};

// The same shape, axis by axis.
int32_t check_like(const Call &call, const View &gradient, const attile_tensor &like, const char *const labels[4],
                   const char *const origins[4]) {
    for (int32_t i = 0; i < like.rank; ++i) ATTILE_TRY(check_extent(call, gradient, i, labels[i], like.shape[i], origins[i]));
    return ATTILE_OK;
}

// dbias has the shape of bias. A sum over an axis is one element, not an output that overlaps itself.
int32_t check_dbias(const Call &call, const attile_tensor &bias, const attile_tensor &dbias, DtypeSet types, GradientViews *views) {
    if (is_absent(dbias)) return ATTILE_OK;
    if (is_absent(bias)) return fail(ATTILE_ERROR_INVALID_VALUE, "%s: dbias is given, but forward->bias is absent", call.operation);
    attile_tensor &summed = views->summed_dbias;
    summed = dbias;
    for (int32_t i = 0; i < bias.rank && dbias.rank == bias.rank; ++i) {
        if (is_summed_axis(bias, dbias, i)) summed.shape[i] = 1;
    }
    ATTILE_TRY(check_tensor(call, "dbias", summed, {types, bias.rank, bias.rank, true}, &views->dbias));
    for (int32_t i = 0; i < bias.rank; ++i) {
        if (dbias.shape[i] == bias.shape[i]) continue;
        return fail(ATTILE_ERROR_SHAPE_MISMATCH, "%s: dbias.shape[%d] is %lld; expected forward->bias.shape[%d] = %lld", call.operation, i,
                    static_cast<long long>(dbias.shape[i]), i, static_cast<long long>(bias.shape[i]));
    }
    return ATTILE_OK;
}

}  // namespace

int32_t check_gradients(const Call &call, const attile_attention_backward_args &args, const attile_attention_args &forward,
                        GradientViews *views) {
    const DtypeSet type = dtype_bit(forward.q.dtype);
    const TensorRule output = {type | kF32, 4, 4, true};
    ATTILE_TRY(check_tensor(call, "dout", args.dout, {type | dtype_bit(forward.o.dtype), 4, 4}, &views->dout));
    ATTILE_TRY(check_tensor(call, "dq", args.dq, output, &views->dq));
    ATTILE_TRY(check_tensor(call, "dk", args.dk, output, &views->dk));
    ATTILE_TRY(check_tensor(call, "dv", args.dv, output, &views->dv));
    ATTILE_TRY(check_dbias(call, forward.bias, args.dbias, dtype_bit(forward.bias.dtype) | kF32, views));
    if (!is_absent(args.dsinks)) {
        if (is_absent(forward.sinks))
            return fail(ATTILE_ERROR_INVALID_VALUE, "%s: dsinks is given, but forward->sinks is absent", call.operation);
        ATTILE_TRY(check_tensor(call, "dsinks", args.dsinks, {dtype_bit(forward.sinks.dtype) | kF32, 1, 1, true}, &views->dsinks));
        ATTILE_TRY(check_extent(call, views->dsinks, 0, "heads_q", forward.q.shape[1], "forward->q.shape[1] (heads_q)"));
    }
    const DtypeSet statistic = type == kF64 ? kF64 : kF32;
    ATTILE_TRY(check_optional(call, "dlse", args.dlse, {statistic, 3, 3}, &views->dlse));
    static constexpr const char *kLabelsQ[4] = {"batch", "heads_q", "len_q", "head_dim"};
    static constexpr const char *kLabelsK[4] = {"batch", "heads_kv", "len_k", "head_dim"};
    static constexpr const char *kOriginsO[4] = {"forward->o.shape[0]", "forward->o.shape[1]", "forward->o.shape[2]",
                                                 "forward->o.shape[3]"};
    static constexpr const char *kOriginsQ[4] = {"forward->q.shape[0]", "forward->q.shape[1]", "forward->q.shape[2]",
                                                 "forward->q.shape[3]"};
    static constexpr const char *kOriginsK[4] = {"forward->k.shape[0]", "forward->k.shape[1]", "forward->k.shape[2]",
                                                 "forward->k.shape[3]"};
    static constexpr const char *kOriginsV[4] = {"forward->v.shape[0]", "forward->v.shape[1]", "forward->v.shape[2]",
                                                 "forward->v.shape[3]"};
    static constexpr const char *kOriginsLse[4] = {"forward->lse.shape[0]", "forward->lse.shape[1]", "forward->lse.shape[2]"};
    ATTILE_TRY(check_like(call, views->dout, forward.o, kLabelsQ, kOriginsO));
    if (views->dlse.present()) ATTILE_TRY(check_like(call, views->dlse, forward.lse, kLabelsQ, kOriginsLse));
    ATTILE_TRY(check_like(call, views->dq, forward.q, kLabelsQ, kOriginsQ));
    ATTILE_TRY(check_like(call, views->dk, forward.k, kLabelsK, kOriginsK));
    return check_like(call, views->dv, forward.v, kLabelsK, kOriginsV);
}

int32_t check_gradient_aliasing(const Call &call, const AttentionViews &forward, const GradientViews &gradients,
                                const attile_launch &launch) {
    constexpr int32_t kInputs = kAttentionInputs + 4;
    constexpr int32_t kOutputs = 5;
    const View *all[kInputs + kOutputs];
    list_attention_inputs(forward, all);
    all[kAttentionInputs] = &forward.o;
    all[kAttentionInputs + 1] = &forward.lse;
    all[kAttentionInputs + 2] = &gradients.dout;
    all[kAttentionInputs + 3] = &gradients.dlse;
    const View *outputs[kOutputs] = {&gradients.dq, &gradients.dk, &gradients.dv, &gradients.dbias, &gradients.dsinks};
    for (int32_t i = 0; i < kOutputs; ++i) {
        // Against the inputs, and the outputs before it.
        for (int32_t j = 0; j < kInputs + i; ++j) ATTILE_TRY(refuse_overlap(call, *outputs[i], *all[j]));
        all[kInputs + i] = outputs[i];
    }
    return check_workspace_apart(call, launch, all, kInputs + kOutputs);
}

namespace {

int32_t prepare(const Call &call, const attile_attention_backward_args *args, BackwardProblem *backward) {
    attile_attention_backward_args full;
    ATTILE_TRY(read_args(call.operation, "args", kBackwardFirstSize, kBackwardFlags, args, &full));
    attile_attention_args forward;
    ATTILE_TRY(read_args(call.operation, "args->forward", kAttentionFirstSize, kAttentionFlags, full.forward, &forward));
    attile_launch launch;
    ATTILE_TRY(make_launch(call, full.stream, full.workspace, full.workspace_bytes, full.flags, &launch));
    const Call forward_call = {call.operation, call.query, "forward->"};
    AttentionViews views;
    ATTILE_TRY(normalise_attention(forward_call, forward, AttentionPass::kBackward, &views, &backward->forward));
    backward->forward.launch = launch;
    GradientViews gradients;
    ATTILE_TRY(check_gradients(call, full, forward, &gradients));
    ATTILE_TRY(check_gradient_aliasing(call, views, gradients, launch));

    attile_attention_backward_problem &problem = backward->problem;
    problem = {};
    problem.struct_size = sizeof problem;
    problem.forward = &backward->forward;
    problem.dout = make_aligned_operand(gradients.dout);
    problem.dq = make_aligned_operand(gradients.dq);
    problem.dk = make_aligned_operand(gradients.dk);
    problem.dv = make_aligned_operand(gradients.dv);
    problem.dbias = make_aligned_operand(gradients.dbias);
    problem.dsinks = make_operand(gradients.dsinks, -1, 0);
    problem.dlse = make_operand(gradients.dlse, 0, 1, 2);
    for (int32_t i = 0; i < 4; ++i) {
        const int32_t axis = gradients.dbias.present() ? i - (4 - gradients.dbias.rank()) : -1;
        problem.bias_extent[i] = axis >= 0 ? gradients.dbias.shape(axis) : 1;
    }
    // Without rows, keys or columns what is left are sums of nothing, or of zeros: they need no walk over the batch, which may be 2^50
    // entries. Not so where lse has a gradient, or where sinks have one and o was made of more keys than these.
    const bool sinks_may_have_one = !gradients.dsinks.empty && !gradients.dout.empty;
    if (gradients.dq.empty && gradients.dk.empty && gradients.dv.empty && gradients.dlse.empty && !sinks_may_have_one) {
        backward->forward.batch = 0;
    }
    backward->paged = views.block_table.present();
    backward->nothing_to_do = true;
    for (const View *output : {&gradients.dq, &gradients.dk, &gradients.dv, &gradients.dbias, &gradients.dsinks}) {
        backward->nothing_to_do = backward->nothing_to_do && output->empty;
    }
    return ATTILE_OK;
}

// Sums into pages that several entries may share have no defined owner.
int32_t check_feasible(const Call &call, const Context *context, const BackwardProblem &backward) {
    if (backward.paged) {
        return fail(ATTILE_ERROR_UNSUPPORTED_FEATURE, "%s: there is no gradient of paged keys and values (forward->block_table)",
                    call.operation);
    }
    return check_version(call, context, context->interfaces.attention_backward, backward.forward, backward.problem.dlse);
}

}  // namespace
}  // namespace attile::core

using namespace attile::core;

extern "C" {

int32_t attile_attention_backward(attile_context *handle, const attile_attention_backward_args *args) {
    return on_context(handle, [&](Context *context) -> int32_t {
        const Call call = {"attention_backward"};
        BackwardProblem backward;
        ATTILE_TRY(prepare(call, args, &backward));
        ATTILE_TRY(check_feasible(call, context, backward));
        return run_problem(call, context, context->interfaces.attention_backward, backward.problem, backward.forward.launch,
                           backward.nothing_to_do);
    });
}

int32_t attile_attention_backward_query(attile_context *handle, const attile_attention_backward_args *args, attile_support *support) {
    return on_context(handle, [&](Context *context) -> int32_t {
        const Call call = {"attention_backward", true};
        BackwardProblem backward;
        ATTILE_TRY(prepare(call, args, &backward));
        ATTILE_TRY(check_output(call.operation, "support", kSupportFirstSize, support));
        if (answer_failure([&] { return check_feasible(call, context, backward); }, support)) return ATTILE_OK;
        return query_problem(call, context, context->interfaces.attention_backward, backward.problem, backward.nothing_to_do, support);
    });
}

}  // extern "C"
