// SPDX-License-Identifier: Apache-2.0
// Gradients of attention whose operands tensor-core kernels cannot read or write where they lie, by copies in rows aligned to 16 bytes
// (attention/mma/copies.h).
#pragma once

#include "attention/mma/copies.h"
#include "attention_backward/mma/plan.h"

namespace attile::gpu::mma {

struct BackwardCopies {
    AlignedCopy q, k, v, o, dout, bias, allowed, dq, dk, dv;
    int64_t columns = 0, columns_v = 0;  // head_dim and head_dim_v, or as many columns as copies have.
    bool shares_row = false;             // All rows have one row of the copy of a bias or mask.

    bool any() const { return workspace() > 0; }
    int64_t workspace() const;
    // The problem with the copies' strides, and no addresses.
    void plan_for(const attile_attention_backward_problem &problem, BackwardProblems &to) const;
    // The same with the copies' places; false: the workspace is too small.
    bool place(const attile_attention_backward_problem &problem, BackwardProblems &to, Workspace &workspace, AlignedCopies &copies) const;
};

// None where none are needed. scores: kernels for a bias or mask alone read it two keys at a time (backward_option). padded: rows of the
// mask may be read to their multiple of 16 bytes.
BackwardCopies backward_copies(const attile_attention_backward_problem &problem, bool scores, bool padded);

// Those of a slice, whose masks were written as bytes before, if there are any.
struct SlicedBackwardCopies {
    AttentionSlices slices;
    AttentionMaskBytes mask_bytes;
    BackwardCopies copies;

    bool any() const { return mask_bytes.any() || copies.any(); }
    bool has_padded_scores() const { return mask_bytes.any() || copies.bias.is_made() || copies.allowed.is_made(); }
    int64_t workspace() const { return mask_bytes.workspace() + copies.workspace(); }
    // The problem that they stand for a slice with, and no addresses of theirs.
    void plan_for(const attile_attention_backward_problem &slice, BackwardProblems &to) const;
};
// None where none are needed, or they do not pay or find room in any slices. kernels: what the family has for masks of blocks.
SlicedBackwardCopies sliced_backward_copies(const Device &device, const attile_attention_backward_problem &problem, MaskKernels kernels);

// A family's plan of the problem that a slice's copies make, for all slices.
template <class Plan>
struct CopiedBackward {
    SlicedBackwardCopies made;
    Plan plan;

    int32_t describe(Device &device, attile_support &support) const {
        const int32_t status = plan.describe(device, support);
        if (made.copies.any()) name_copies(support, "operands");
        if (made.mask_bytes.any()) name_mask_bytes(support);
        name_slices(support, made.slices);
        return status;
    }
    void move_to(const attile_attention_backward_problem &to) { plan.move_to(to); }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        for (int64_t i = 0; i < made.slices.count(); ++i) {
            Workspace again = workspace;
            BackwardProblems slice;
            slice.part(*plan.problem, made.slices.part(*plan.problem->forward, i));
            const int32_t status = launch_slice(device, slice.backward, again, stream);
            if (status != ATTILE_OK) return status;
        }
        return ATTILE_OK;
    }

  private:
    int32_t launch_slice(Device &device, const attile_attention_backward_problem &slice, Workspace &workspace, Stream stream) const {
        BackwardProblems masked, problems;
        masked.copy(slice);
        int32_t status = made.mask_bytes.make(device, masked.forward, workspace, stream);
        if (status != ATTILE_OK) return status;
        AlignedCopies placed;
        if (!made.copies.place(masked.backward, problems, workspace, placed))
            return fail(ATTILE_ERROR_INTERNAL, "attention_backward: the workspace is smaller than planned");
        if (made.copies.any()) status = placed.pack(device, stream);
        if (status != ATTILE_OK) return status;
        Plan moved = plan;
        moved.move_to(problems.backward);
        status = moved.launch(device, workspace, stream);
        return status != ATTILE_OK || !made.copies.any() ? status : placed.unpack(device, stream);
    }
};

// The plan that choose(device, problem, padded) makes of the problem, or of its copies. padded: rows of a bias or mask may be read to their
// multiple of 16 bytes. kernels: what the family has for masks of blocks.
template <class Plan, class Choose>
Planned<attile_attention_backward_problem> backward_with_copies(Device &device, const attile_attention_backward_problem &problem,
                                                                MaskKernels kernels, const Choose &choose) {
    const SlicedBackwardCopies made = sliced_backward_copies(device, problem, kernels);
    if (made.any()) {
        BackwardProblems slice, problems;
        slice.part(problem, made.slices.part(*problem.forward, 0));
        made.plan_for(slice.backward, problems);
        const auto choice = choose(device, problems.backward, made.has_padded_scores());
        if (choice.taken) {
            return Planned<attile_attention_backward_problem>(CopiedBackward<Plan>{made, Plan{&problem, choice}},
                                                              made.workspace() + choice.plan.workspace);
        }
    }
    const auto choice = choose(device, problem, false);
    if (!choice.taken) return Planned<attile_attention_backward_problem>(choice.declined);
    return Planned<attile_attention_backward_problem>(Plan{&problem, choice}, choice.plan.workspace);
}

}  // namespace attile::gpu::mma
