// SPDX-License-Identifier: Apache-2.0
// What the plans of all attention kernels for tensor cores have in common: which problems they take, how rows and keys are cut into tiles,
// and what is put together after the launch. What only one kind of kernel limits or needs is its own.
#pragma once

#include "attention/mma/task.h"
#include "attention/plan.h"
#include "host/family.h"
#include "host/status.h"

namespace attile::gpu::mma {

// A plan in the operation's terms, or the reason why there is none.
struct AttentionChoice {
    bool taken = false;
    Declined declined;
    AttentionPlan plan;
    int64_t tiles = 0;  // Row blocks times splits times (batch entry, pack of heads) pairs.
};

// A kernel, as the plan sees it.
struct AttentionTile {
    const char *name = nullptr;
    const void *kernel = nullptr;
    int32_t rows = 0, keys = 0, depth = 0, threads = 0;
    int64_t shared = 0;  // Dynamic shared memory of a block.
};

// A choice that declines, with the reason as one clause.
AttentionChoice attention_declined(const char *format, ...) ATTILE_GPU_PRINTF(1, 2);

// Do scores pass through more than a mask? Kernels of the plain kind take maxima before the scale, which must not turn them around.
bool attention_modifies(const attile_attention_problem &problem);
// Why the scale is not for kernels that multiply by it in the exponent: the product of a row's largest score with it, rounded, is what
// exponents are taken from, and must be right to a few units however large scores are. Empty: it is.
Declined attention_scale_refused(const attile_attention_problem &problem);
// Why 16-byte copies and stores do not reach an operand's rows; empty: they do.
Declined attention_unreached(const char *name, const attile_operand &operand, int64_t columns);
// Are V's rows the first columns of K's: in memory the same?
bool attention_values_in_keys(const attile_attention_problem &problem);
// Types, extents, and what 16-byte copies and stores reach. A choice that is taken, and says nothing more.
AttentionChoice attention_examine(const attile_attention_problem &problem, bool takes_f32 = false);
// Why so few rows, or rows and keys, are not for tensor cores; empty: they are. has_few: there is a kernel for few rows with the problem's
// bias or mask.
Declined attention_few_refused(const attile_attention_problem &problem, bool has_few);
// Why a mask of blocks or of a tree is not for the kernel; empty: there is none.
Declined attention_sparse_refused(const attile_attention_problem &problem);
// Why an attention of float32 is not for tf32x3 on this device; empty: it is.
Declined attention_tf32x3_refused(const Device &device, const attile_attention_problem &problem);

template <class Kernel>
AttentionTile attention_tile(const Kernel &of) {
    return {of.name, of.kernel, of.shape->rows(), of.shape->keys, of.shape->depth, of.shape->threads(), of.shape->shared_bytes()};
}

// The first that holds the problem's heads, of functions that give kernels with their shapes, narrowest first; one without a kernel if none
// does.
template <class Kernel>
AttentionTile narrowest_tile(Kernel (*const *kernels)(), std::size_t count, const attile_attention_problem &problem) {
    for (std::size_t i = 0; i < count; ++i) {
        const Kernel found = kernels[i]();
        if (found.shape->depth >= problem.head_dim && found.shape->columns >= problem.head_dim_v) return attention_tile(found);
    }
    return {};
}

// Which query heads of a key head may be rows of one tile: as many as divide its rows, or all if the tile holds all of their rows.
enum class Packing { kNone, kThatDivides, kAll };
// The problem cut for this kernel, if there is one and the device takes it.
AttentionChoice attention_cut(Device &device, const attile_attention_problem &problem, const AttentionTile &tile,
                              Packing packing = Packing::kThatDivides);
// How long a problem so cut takes, in key tiles of its kernel.
double attention_cost(Device &device, const attile_attention_problem &problem, const AttentionPlan &plan);
// The same for a kernel whose tiles have rows of one head, or, where packing heads saves more than it is faster, for the general one.
AttentionChoice attention_cut_fused(Device &device, const attile_attention_problem &problem, const AttentionTile &fused,
                                    const AttentionTile &general);

// The kernel's arguments, and the places of its splits' results in the workspace. l2_bytes: of K and V that tiles walked together may
// touch.
int32_t attention_task(const attile_attention_problem &problem, const AttentionChoice &choice, int64_t l2_bytes, Workspace &workspace,
                       AttentionTask &task);

// The plan of a kernel that has a block for each tile and is told nothing but the task.
struct TiledAttention {
    const attile_attention_problem *problem;
    AttentionChoice choice;

    int32_t describe(Device &device, attile_support &support) const;
    void move_to(const attile_attention_problem &to) { problem = &to; }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const;
};
// The choice as such a plan, if it is taken.
Planned<attile_attention_problem> attention_planned(const attile_attention_problem &problem, const AttentionChoice &choice);

}  // namespace attile::gpu::mma
