// SPDX-License-Identifier: Apache-2.0
// Attention whose operands tensor-core kernels cannot read or write where they lie: a problem of copies in rows aligned to 16 bytes stands
// for the caller's. Copying takes a few microseconds and the memory's rate; kernels that read anything take ten times the arithmetic.
#pragma once

#include <cstddef>

#include "attention/mma/mask_bytes.h"
#include "attention/mma/plan.h"
#include "attention/mma/slices.h"
#include "attention/mma/widened.h"
#include "mma/aligned_copy.h"

namespace attile::gpu::mma {

struct AttentionCopies {
    AlignedCopy q, k, v, o, bias, allowed;
    int64_t columns_v = 0;  // head_dim_v, or as many columns as the copies of V and of the output have.

    bool any() const { return q.is_made() || k.is_made() || v.is_made() || o.is_made() || bias.is_made() || allowed.is_made(); }
    int64_t workspace() const;
    // The problem with the copies' strides, and no addresses.
    attile_attention_problem plan_for(const attile_attention_problem &problem) const;
    // The same with the copies' places, which `copies` makes and brings back; false: the workspace is too small.
    bool place(attile_attention_problem &problem, Workspace &workspace, AlignedCopies &copies) const;
    // "q, k", those that are copied.
    void name(char *text, std::size_t capacity) const;
};

inline constexpr int64_t kCopiedColumns = 8;  // Copies of V, and of gradients, have a multiple of them.

// Do 16-byte accesses miss an operand's rows, wherever it lies? The workspace must not depend on addresses, so they are not asked.
bool attention_strides_unreached(const attile_operand &operand, int64_t columns);
// Is the problem large enough that copies pay, whatever kernel reads them?
bool attention_copies_pay(const attile_attention_problem &problem);
// Do copies of so many bytes find room?
bool attention_copies_fit(const Device &device, int64_t bytes);
// The copies that kernels for tensor cores need to read all operands and, if `scores`, to read a bias or mask by TMA or copies of 16 bytes;
// none where none are needed. Of f16 and bf16. padded: rows of the mask may be read to their multiple of 16 bytes.
AttentionCopies attention_copies(const attile_attention_problem &problem, bool scores, bool padded);

// What is made before kernels for tensor cores run: numbers of 8 bits are widened and masks written as bytes, then come the copies. All are
// those of a slice.
struct AttentionRewriting {
    AttentionSlices slices;
    AttentionWidened widened;
    AttentionMaskBytes mask_bytes;
    AttentionCopies copies;

    bool any() const { return widened.any() || mask_bytes.any() || copies.any(); }
    // Of the slice that they are of: bytes, and the problem that they stand for it with, without addresses of theirs.
    int64_t workspace(const attile_attention_problem &slice) const;
    attile_attention_problem plan_for(const attile_attention_problem &slice) const;
};
// Nothing where nothing is needed, or it does not pay or find room in any slices. kernels: what the family has for masks of blocks.
AttentionRewriting attention_rewriting(const Device &device, const attile_attention_problem &problem, MaskKernels kernels);

// A family's plan of what a slice is rewritten as, for all slices.
template <class Plan>
struct CopiedAttention {
    AttentionRewriting made;
    Plan plan;

    int32_t describe(Device &device, attile_support &support) const {
        const int32_t status = plan.describe(device, support);
        char names[48];
        made.copies.name(names, sizeof names);
        if (made.copies.any()) name_copies(support, names);
        if (made.widened.any()) name_widened(support, made.widened.dtype);
        if (made.mask_bytes.any()) name_mask_bytes(support);
        name_slices(support, made.slices);
        return status;
    }
    void move_to(const attile_attention_problem &to) { plan.move_to(to); }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        for (int64_t i = 0; i < made.slices.count(); ++i) {
            Workspace again = workspace;
            const AttentionPart part = made.slices.part(*plan.problem, i);
            const int32_t status = launch_slice(device, attention_part(*plan.problem, part), again, stream);
            if (status != ATTILE_OK) return status;
        }
        return ATTILE_OK;
    }

  private:
    int32_t launch_slice(Device &device, attile_attention_problem problem, Workspace &workspace, Stream stream) const {
        const AttentionCopies &copies = made.copies;
        int32_t status = made.widened.any() ? made.widened.make(device, problem, workspace, stream) : ATTILE_OK;
        if (status == ATTILE_OK) status = made.mask_bytes.make(device, problem, workspace, stream);
        if (status != ATTILE_OK) return status;
        AlignedCopies placed;
        if (!copies.place(problem, workspace, placed))
            return fail(ATTILE_ERROR_INTERNAL, "attention: the workspace is smaller than planned");
        if (copies.any()) status = placed.pack(device, stream);
        if (status != ATTILE_OK) return status;
        Plan moved = plan;
        moved.move_to(problem);
        status = moved.launch(device, workspace, stream);
        return status != ATTILE_OK || !copies.any() ? status : placed.unpack(device, stream);
    }
};

// The plan that `choose` makes of the problem, or of its copies. choose(device, problem, padded) gives a choice of the family; padded: rows
// of the mask may be read to their multiple of 16 bytes. kernels: what the family has for masks of blocks.
template <class Plan, class Choose>
Planned<attile_attention_problem> attention_with_copies(Device &device, const attile_attention_problem &problem, MaskKernels kernels,
                                                        const Choose &choose) {
    const AttentionRewriting made = attention_rewriting(device, problem, kernels);
    if (made.any()) {
        const attile_attention_problem slice = attention_part(problem, made.slices.part(problem, 0));
        const auto choice = choose(device, made.plan_for(slice), made.copies.allowed.is_made() || made.mask_bytes.any());
        if (choice.taken)
            return Planned<attile_attention_problem>(CopiedAttention<Plan>{made, Plan{&problem, choice}},
                                                     made.workspace(slice) + choice.plan.workspace);
        if (made.widened.any()) return Planned<attile_attention_problem>(choice.declined);
    }
    const auto choice = choose(device, problem, false);
    if (!choice.taken) return Planned<attile_attention_problem>(choice.declined);
    return Planned<attile_attention_problem>(Plan{&problem, choice}, choice.plan.workspace);
}

}  // namespace attile::gpu::mma
