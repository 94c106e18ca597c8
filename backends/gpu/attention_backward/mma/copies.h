// SPDX-License-Identifier: Apache-2.0
// Gradients of attention whose operands tensor-core kernels cannot read or write where they lie, by copies in rows aligned to 16 bytes
// (attention/mma/copies.h).
#pragma once

#include "attention/mma/copies.h"
#include "attention_backward/mma/plan.h"

namespace attile::gpu::mma {

struct BackwardCopies {
    AlignedCopy q, k, v, o, dout, dq, dk, dv;
    int64_t columns = 0, columns_v = 0;  // head_dim and head_dim_v, or as many columns as copies have.

    bool any() const { return workspace() > 0; }
    int64_t workspace() const;
    // The problem with the copies' strides, and no addresses.
    void plan_for(const attile_attention_backward_problem &problem, BackwardProblems &to) const;
    // The same with the copies' places; false: the workspace is too small.
    bool place(const attile_attention_backward_problem &problem, BackwardProblems &to, Workspace &workspace, AlignedCopies &copies) const;
};

// None where none are needed or they do not pay.
BackwardCopies backward_copies(const Device &device, const attile_attention_backward_problem &problem);

// A family's plan of the problem that the copies make, of one whose masks were written as bytes before, if there are any.
template <class Plan>
struct CopiedBackward {
    AttentionMaskBytes mask_bytes;
    BackwardCopies copies;
    Plan plan;

    int32_t describe(Device &device, attile_support &support) const {
        const int32_t status = plan.describe(device, support);
        if (copies.any()) name_copies(support, "operands");
        if (mask_bytes.any()) name_mask_bytes(support);
        return status;
    }
    void move_to(const attile_attention_backward_problem &to) { plan.move_to(to); }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        BackwardProblems masked, problems;
        masked.copy(*plan.problem);
        int32_t status = mask_bytes.make(device, masked.forward, workspace, stream);
        if (status != ATTILE_OK) return status;
        AlignedCopies made;
        if (!copies.place(masked.backward, problems, workspace, made))
            return fail(ATTILE_ERROR_INTERNAL, "attention_backward: the workspace is smaller than planned");
        if (copies.any()) status = made.pack(device, stream);
        if (status != ATTILE_OK) return status;
        Plan moved = plan;
        moved.move_to(problems.backward);
        status = moved.launch(device, workspace, stream);
        return status != ATTILE_OK || !copies.any() ? status : made.unpack(device, stream);
    }
};

// The plan that choose(device, problem) makes of the problem, or of its copies. kernels: what the family has for masks of blocks.
template <class Plan, class Choose>
Planned<attile_attention_backward_problem> backward_with_copies(Device &device, const attile_attention_backward_problem &problem,
                                                                MaskKernels kernels, const Choose &choose) {
    const AttentionMaskBytes mask_bytes = attention_mask_bytes(device, *problem.forward, kernels);
    BackwardProblems masked;
    masked.copy(problem);
    masked.forward = mask_bytes.plan_for(*problem.forward);
    const BackwardCopies copies = backward_copies(device, masked.backward);
    if (copies.any() || mask_bytes.any()) {
        BackwardProblems problems;
        copies.plan_for(masked.backward, problems);
        const auto choice = choose(device, problems.backward);
        if (choice.taken) {
            return Planned<attile_attention_backward_problem>(CopiedBackward<Plan>{mask_bytes, copies, Plan{&problem, choice}},
                                                              mask_bytes.workspace() + copies.workspace() + choice.plan.workspace);
        }
    }
    const auto choice = choose(device, problem);
    if (!choice.taken) return Planned<attile_attention_backward_problem>(choice.declined);
    return Planned<attile_attention_backward_problem>(Plan{&problem, choice}, choice.plan.workspace);
}

}  // namespace attile::gpu::mma
