// SPDX-License-Identifier: Apache-2.0
// Attention whose operands tensor-core kernels cannot read or write where they lie: a problem of copies in rows aligned to 16 bytes stands
// for the caller's. Copying takes a few microseconds and the memory's rate; kernels that read anything take ten times the arithmetic.
#pragma once

#include <cstddef>

#include "attention/mma/mask_bytes.h"
#include "attention/mma/plan.h"
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
// The copies that kernels for tensor cores need to read all operands, and to read a bias or mask by TMA or copies of 16 bytes; none where
// none are needed or they do not pay. Of f16 and bf16. padded: rows of the mask may be read to their multiple of 16 bytes.
AttentionCopies attention_copies(const Device &device, const attile_attention_problem &problem, bool padded);

// A family's plan of the problem that the copies make, of one whose numbers of 8 bits were widened and whose masks were written as bytes
// before, if there are any.
template <class Plan>
struct CopiedAttention {
    AttentionWidened widened;
    AttentionMaskBytes mask_bytes;
    AttentionCopies copies;
    Plan plan;

    int32_t describe(Device &device, attile_support &support) const {
        const int32_t status = plan.describe(device, support);
        char names[48];
        copies.name(names, sizeof names);
        if (copies.any()) name_copies(support, names);
        if (widened.any()) name_widened(support, widened.dtype);
        if (mask_bytes.any()) name_mask_bytes(support);
        return status;
    }
    void move_to(const attile_attention_problem &to) { plan.move_to(to); }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        attile_attention_problem problem = *plan.problem;
        int32_t status = widened.any() ? widened.make(device, problem, workspace, stream) : ATTILE_OK;
        if (status == ATTILE_OK) status = mask_bytes.make(device, problem, workspace, stream);
        if (status != ATTILE_OK) return status;
        AlignedCopies made;
        if (!copies.place(problem, workspace, made)) return fail(ATTILE_ERROR_INTERNAL, "attention: the workspace is smaller than planned");
        if (copies.any()) status = made.pack(device, stream);
        if (status != ATTILE_OK) return status;
        Plan moved = plan;
        moved.move_to(problem);
        status = moved.launch(device, workspace, stream);
        return status != ATTILE_OK || !copies.any() ? status : made.unpack(device, stream);
    }
};

// The plan that `choose` makes of the problem, or of its copies. choose(device, problem, padded) gives a choice of the family; padded: rows
// of the mask may be read to their multiple of 16 bytes. kernels: what the family has for masks of blocks.
template <class Plan, class Choose>
Planned<attile_attention_problem> attention_with_copies(Device &device, const attile_attention_problem &problem, MaskKernels kernels,
                                                        const Choose &choose) {
    const AttentionWidened widened = attention_widened(device, problem);
    attile_attention_problem wide = widened.any() ? widened.plan_for(problem) : problem;
    const AttentionMaskBytes mask_bytes = attention_mask_bytes(device, wide, kernels);
    wide = mask_bytes.plan_for(wide);
    const AttentionCopies copies = attention_copies(device, wide, mask_bytes.any());
    if (copies.any() || widened.any() || mask_bytes.any()) {
        const auto choice = choose(device, copies.plan_for(wide), copies.allowed.is_made() || mask_bytes.any());
        const int64_t before = copies.workspace() + mask_bytes.workspace() + (widened.any() ? widened.workspace(problem) : 0);
        if (choice.taken)
            return Planned<attile_attention_problem>(CopiedAttention<Plan>{widened, mask_bytes, copies, Plan{&problem, choice}},
                                                     before + choice.plan.workspace);
        if (widened.any()) return Planned<attile_attention_problem>(choice.declined);
    }
    const auto choice = choose(device, problem, false);
    if (!choice.taken) return Planned<attile_attention_problem>(choice.declined);
    return Planned<attile_attention_problem>(Plan{&problem, choice}, choice.plan.workspace);
}

}  // namespace attile::gpu::mma
