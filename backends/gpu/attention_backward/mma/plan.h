// SPDX-License-Identifier: Apache-2.0
// What the plans of all tensor-core kernels of attention's gradients have in common: which problems they take, how pairs and rows are cut,
// and the launches before and after the kernels' own.
#pragma once

#include <limits>

#include "attention/mma/mask_bytes.h"
#include "attention/mma/plan.h"
#include "attention/part.h"
#include "attention_backward/mma/task.h"
#include "attention_backward/plan.h"

namespace attile::gpu::mma {

inline constexpr int64_t kMostBackwardBlocks = int64_t{1} << 30;  // Of any of the kernels.

// Gradients and the problem that they are of, to which they point.
struct BackwardProblems {
    attile_attention_problem forward;
    attile_attention_backward_problem backward;

    void copy(const attile_attention_backward_problem &problem) {
        forward = *problem.forward;
        backward = problem;
        backward.forward = &forward;
    }
    // Some entries and heads of it, and of sums over either all.
    void part(const attile_attention_backward_problem &problem, const AttentionPart &part);
};

// A plan in the operation's terms, or the reason why there is none.
struct BackwardChoice {
    bool taken = false;
    Declined declined;
    AttentionBackwardPlan plan;
    int32_t usual_blocks = 1;  // Blocks a multiprocessor holds, wherever operands lie: the workspace goes by it.
    // Pairs for which there is room for what kernels keep between them. Below 1 nothing is taken, but parts of a group may be.
    double pairs_at_once = std::numeric_limits<double>::infinity();
};

// Declines, with the reason as one clause, or without one.
BackwardChoice backward_declined(const char *why);
BackwardChoice backward_declined(const Declined &why);

// Types, extents, and what 16-byte copies and stores reach. A choice that is taken, and says nothing more.
// kernels: what the family has for masks of blocks.
BackwardChoice backward_examine(const attile_attention_backward_problem &problem, MaskKernels kernels);
// The option that scores pass through, if it is one alone and a kernel for it alone can read it: bias and `allowed` two keys at a time.
// padded: as below.
enum class BackwardOption { kBias, kAllowed, kAlibi, kSoftcap, kSeveral };
BackwardOption backward_option(const attile_attention_problem &problem, bool padded);
// Do scores pass through a bias, a mask of bytes, ALiBi or softcap alone?
bool backward_has_one_option(const attile_attention_problem &problem);
// Can a kernel for it alone read a bias or mask, wherever it lies? padded: rows may be read to their multiple of 16 bytes.
bool backward_reads_pairs(const attile_attention_problem &problem, const attile_operand &operand, bool padded);
// Pairs and rows of a plan whose blocks have plan.keys keys, and the numbers of rows that all such kernels take.
void backward_cut(const attile_attention_backward_problem &problem, AttentionBackwardPlan &plan);
// Bytes of those numbers, and of so many words of the caller's own.
int64_t backward_workspace(const AttentionBackwardPlan &plan, int64_t words = 0);
// What a query says besides the kernel's text and shape.
void backward_report(Device &device, const attile_attention_backward_problem &problem, const AttentionBackwardPlan &plan,
                     const void *kernel, int32_t shared, attile_support &support);

// A call on its way through its launches. Everything after a failure is left undone.
class BackwardSteps {
  public:
    // `task` belongs to the caller, who fills in what is his own kernels'.
    BackwardSteps(Device &device, const attile_attention_backward_problem &problem, const AttentionBackwardPlan &plan, Stream stream,
                  BackwardTask &task);

    int32_t status() const { return status_; }
    // The numbers of rows from the workspace, and so many words of the caller's own, which are zero after prepare(); null: it is too small.
    uint32_t *take(Workspace &workspace, int64_t words = 0);
    void zero(void *memory, int64_t bytes);
    // Fills in the numbers of rows. checks: and finds pairs that hold NaN or infinity, else the kernels do.
    void prepare(bool checks);
    // Blocks of `kept` of the `length` rows or keys of so many heads, while `streamed` bytes, which `sharers` heads have in common, stream
    // by.
    void deal(int64_t heads, int64_t length, int64_t kept, int64_t streamed, int64_t sharers);
    // `arguments`: the kernel's one parameter.
    void launch(const void *kernel, void *arguments, int64_t blocks, int32_t threads, int32_t shared);
    // As launch, for a kernel that awaits the one ahead of it.
    void launch_early(const void *kernel, void *arguments, int64_t blocks, int32_t threads);
    // Unless something failed before: a launch of the caller's own, which returns a status.
    template <class Launch>
    void launch_by(const Launch &launch) {
        if (status_ == ATTILE_OK) status_ = launch();
    }
    // Pairs that hold NaN or infinity.
    void one_by_one(int64_t first, int64_t count);
    // A SIMT kernel whose threads share out `tasks` among themselves, or on so many blocks.
    void step(simt::AttentionBackwardKernel kernel, int64_t tasks);
    void launch_step(simt::AttentionBackwardKernel kernel, int64_t blocks);
    void sinks();

    const simt::AttentionBackwardSteps steps = simt::attention_backward_steps_f32();

  private:
    int64_t step_blocks(int64_t tasks, int64_t of_unit) const;

    Device &device_;
    const attile_attention_problem &p_;
    const AttentionBackwardPlan &plan_;
    Stream stream_;
    BackwardTask &task_;
    int64_t words_ = 0;
    int32_t status_ = ATTILE_OK;
};

}  // namespace attile::gpu::mma
