// SPDX-License-Identifier: Apache-2.0
// From the arguments of attile_attention to the problem a backend solves; backward starts from the same.
#ifndef ATTILE_CORE_ATTENTION_PROBLEM_H
#define ATTILE_CORE_ATTENTION_PROBLEM_H

#include <attile/attile_backend.h>

#include <cstdint>

#include "operation.h"

namespace attile::core {

inline constexpr uint32_t kAttentionFirstSize = ATTILE_SIZE_UP_TO(attile_attention_args, block_table);
inline constexpr uint32_t kAttentionFlags = ATTILE_FLAG_BATCH_INVARIANT | ATTILE_FLAG_NO_ALLOC | ATTILE_FLAG_ALLOW_SPLIT_TF32;
inline constexpr uint32_t kForwardFlags = kAttentionFlags | ATTILE_FLAG_FAST_ACCUMULATION | ATTILE_FLAG_EXACT_PRODUCTS;

// Every tensor of a forward call.
struct AttentionViews {
    View q, k, v, o, lse, bias, allowed, alibi_slopes, sinks, key_lengths, cu_len_q, cu_len_k, block_table, key_starts, causal_offset,
        block_mask, tree_mask, k_scale, v_scale, q_scale, o_scale;
};

// Whether o and lse are written, or read as backward does.
enum class AttentionPass { kForward, kBackward };

// Validates arguments that were read to full size, except for their launch and aliasing, and fills everything of `problem` but its launch.
int32_t normalise_attention(const Call &call, const attile_attention_args &args, AttentionPass pass, AttentionViews *views,
                            attile_attention_problem *problem);

// Reads, validates and normalises a forward call; `full` becomes the arguments as this version has them. `nothing_to_do`: no output has an
// element.
int32_t read_attention(const Call &call, const attile_attention_args *args, attile_attention_args *full, attile_attention_problem *problem,
                       bool *nothing_to_do);

// What no backend computes exactly, and why.
int32_t check_exact(const Call &call, const attile_attention_problem &problem);

// A backend that knows an earlier version of the problem alone would not see what is newer in it, and compute something else. What is asked
// of exact products that nobody has is refused here, too.
template <typename Interface>
int32_t check_version(const Call &call, const Context *context, const Interface *interface, const attile_attention_problem &problem,
                      const attile_operand &dlse = {}) {
    if (is_exact(problem.launch.flags)) {
        ATTILE_TRY(check_exact(call, problem));
        return check_exact_known(call, context, interface, problem.launch, 3);
    }
    const bool rows_alone_packed =
        problem.cu_len_q.dtype != 0 && problem.cu_len_k.dtype == 0 && problem.block_table.dtype == 0 && problem.len_k > 0;
    const char *const newer = problem.key_starts.dtype != 0      ? "key_starts"
                              : problem.causal_offset.dtype != 0 ? "causal_offset"
                              : problem.block_mask.dtype != 0    ? "block_mask"
                              : problem.tree_mask.dtype != 0     ? "tree_mask"
                              : dlse.dtype != 0                  ? "dlse"
                              : rows_alone_packed                ? "cu_len_q without cu_len_k"
                                                                 : nullptr;
    const bool of_several_types = ((dtype_bit(problem.q.dtype) | dtype_bit(problem.o.dtype)) & kNarrow) != 0 ||
                                  problem.k.dtype != problem.q.dtype || problem.v.dtype != problem.q.dtype ||
                                  (problem.bias.dtype != 0 && problem.bias.dtype != problem.q.dtype && problem.bias.dtype != ATTILE_F32);
    if (of_several_types && interface != nullptr && interface->version < 2) {
        return fail(ATTILE_ERROR_UNSUPPORTED_DTYPE,
                    "%s: the backend '%s' is too old to know q or o of 8 bits, or k, v or bias of other types than q", call.operation,
                    context->backend_name);
    }
    if (newer == nullptr || interface == nullptr || interface->version >= 2) return ATTILE_OK;
    return fail(ATTILE_ERROR_UNSUPPORTED_FEATURE, "%s: the backend '%s' is too old to know %s", call.operation, context->backend_name,
                newer);
}

// What is only read by a forward call: all but o and lse.
inline constexpr int32_t kAttentionInputs = 19;
inline void list_attention_inputs(const AttentionViews &views, const View *inputs[kAttentionInputs]) {
    const View *list[kAttentionInputs] = {&views.q,
                                          &views.k,
                                          &views.v,
                                          &views.bias,
                                          &views.allowed,
                                          &views.alibi_slopes,
                                          &views.sinks,
                                          &views.key_lengths,
                                          &views.cu_len_q,
                                          &views.cu_len_k,
                                          &views.block_table,
                                          &views.key_starts,
                                          &views.causal_offset,
                                          &views.block_mask,
                                          &views.tree_mask,
                                          &views.k_scale,
                                          &views.v_scale,
                                          &views.q_scale,
                                          &views.o_scale};
    for (int32_t i = 0; i < kAttentionInputs; ++i) inputs[i] = list[i];
}

inline constexpr uint32_t kBackwardFirstSize = ATTILE_SIZE_UP_TO(attile_attention_backward_args, dsinks);
inline constexpr uint32_t kBackwardFlags = kAttentionFlags | ATTILE_FLAG_ALLOW_NONDETERMINISTIC;

// Every tensor of gradients.
struct GradientViews {
    View dout, dq, dk, dv, dbias, dsinks, dlse;
    attile_tensor summed_dbias;  // what `dbias` looks at
};

// Whether dbias is summed over an axis that bias broadcasts by a stride of 0: a stride of 0 in dbias asks for it.
inline bool is_summed_axis(const attile_tensor &bias, const attile_tensor &dbias, int32_t axis) {
    return dbias.shape[axis] == bias.shape[axis] && bias.shape[axis] > 1 && bias.stride[axis] == 0 && dbias.stride[axis] == 0 &&
           !is_empty(dbias);
}

// Validates gradients beside a forward call that was. Both structs outlive the views.
int32_t check_gradients(const Call &call, const attile_attention_backward_args &args, const attile_attention_args &forward,
                        GradientViews *views);
int32_t check_gradient_aliasing(const Call &call, const AttentionViews &forward, const GradientViews &gradients,
                                const attile_launch &launch);

}  // namespace attile::core

#endif
