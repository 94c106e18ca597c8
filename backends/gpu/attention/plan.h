// SPDX-License-Identifier: Apache-2.0
// Which attention kernel a problem gets and how it is cut over blocks: decided from the problem and the device alone, as data that prints.
#pragma once

#include <cstdint>

#include "attention/simt/kernels.h"
#include "device.h"

namespace attile::gpu {

enum class AttentionPath { kNothing, kDecode, kTile, kAny };

struct AttentionPlan {
    int32_t status = ATTILE_OK;  // Else why the problem cannot be run, with the reason in text.
    char text[256] = {};

    AttentionPath path = AttentionPath::kNothing;
    const char *name = "";
    const void *kernel = nullptr;
    int32_t rows = 0, keys = 0, depth = 0, threads = 0;  // A block's tile.
    std::size_t shared = 0;                              // Dynamic shared memory of a block.
    bool awaits = false;                                 // The kernel begins with await_kernel_ahead() (early.h).
    double share = 0;

    bool modifiers = false;  // Scores pass through more than a mask.
    bool convert = false;    // K and V are first rewritten as dense float rows.
    int32_t pack = 1;        // Query heads that are rows of one problem.
    int64_t rows_per_head = 0;
    int64_t row_blocks = 0;
    int32_t splits = 1;
    int64_t split_tiles = 0;
    int64_t whole_blocks = 0;                           // So many row blocks of all heads take all keys: only those after them are split.
    int64_t first_part = 0;                             // The first row after them, counted through all heads.
    bool longest_first = false, shortest_last = false;  // See AttentionParams.
    int64_t slice = 0;                                  // (batch entry, key head) pairs of one launch.

    int64_t convert_k = 0, convert_v = 0;  // Floats of the rewritten K and V of a slice.
    int64_t part_rows = 0;                 // Rows of all partial results.
    int64_t arrivals = 0;                  // Words in which a decode kernel counts blocks that are done.
    bool merges = false;                   // The kernel itself puts splits together.
    int64_t workspace = 0;

    int64_t blocks_of(int64_t heads) const;  // Of a launch.
    int64_t blocks() const { return blocks_of(slice); }
    int64_t slices = 0;
    int32_t blocks_per_unit = 0;
    double cost = 0;  // Estimated seconds.
};

// `by_any`: of the kernel that takes anything, whatever is faster.
AttentionPlan plan_attention(Device &device, const attile_attention_problem &problem, bool by_any = false);

// How much of a problem whose kernel and splits are planned goes into a launch, and the workspace for what is kept between launches.
void attention_cut_launches(Device &device, const attile_attention_problem &problem, AttentionPlan &plan);

// The softcap as kernels take it. In float, one that has no inverse is as good as none, one far below a score's rounding as good as 0.
double attention_softcap(const attile_attention_problem &problem);

// Is q of 8 bits, k or v of another type than q, or the bias of another than q and f32? Is q of 8 bits? Is k or v of 8 or 4?
bool attention_has_several_types(const attile_attention_problem &problem);
bool attention_has_narrow_queries(const attile_attention_problem &problem);
bool attention_is_narrow(const attile_operand &operand);  // Of 8 or 4 bits.
// Is there a kernel that streams keys and values of these types for few rows? It takes q of any.
bool attention_streams_keys(const attile_attention_problem &problem);
bool attention_has_narrow_keys(const attile_attention_problem &problem);

// Do scores pass through more than a mask? What pages hide is not asked for here.
bool attention_modifies_scores(const attile_attention_problem &problem);
// Is something done to them, and is there a mask of blocks or of a tree?
bool attention_changes_scores(const attile_attention_problem &problem);
bool attention_has_sparse_mask(const attile_attention_problem &problem);

// Numbers of AttentionParams::part_sum.
int64_t attention_part_sums(const attile_attention_problem &problem, const AttentionPlan &plan);

// Pairs of row and key that mask and window leave, were every entry of full length.
double attention_visible_pairs(const attile_attention_problem &problem);

// One line about the plan.
void print_plan(const AttentionPlan &plan, char *text, std::size_t capacity);

}  // namespace attile::gpu
