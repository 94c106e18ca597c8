// SPDX-License-Identifier: Apache-2.0
// Attention of numbers of 8 bits for kernels of 16 bits: q, k and v that have 8 bits are rewritten, times their scales, as rows of q's
// type, or of o's where q has 8 bits, and the problem with those stands for the caller's. Of pages those that a table names are, in the
// table's order, and a table of these goes with them, in which pages that do not exist are missing as before.
#pragma once

#include "attention/params.h"
#include "device.h"
#include "host/workspace.h"

namespace attile::gpu::mma {

struct WidenParams {
    AttentionOperand from;
    AttentionScales scales;
    void *to;
    uint32_t pairs, pairs_at_once;   // Of entry, or page of the table, and head; so many have less than 2^31 pieces.
    Divider heads, of_pair, of_row;  // of_pair, of_row: pieces of kWidenedAtOnce numbers.
    int32_t cols;
    int32_t one_scale;  // The numbers of a piece have one.
    // Of pages: the caller's table, and ours, or null.
    const int32_t *block_table, *key_lengths;
    int64_t block_table_stride[2], key_lengths_stride, pages;
    Divider table_pages;  // Of an entry.
    int32_t page_size;
    int32_t *table;
};
inline constexpr int32_t kWidenThreads = 256, kWidenedAtOnce = 8, kWidenedPieces = 4;  // Pieces of a thread under way.
// What one launch rewrites, by the third axis of its grid.
struct WidenAll {
    WidenParams of[3];
};
const void *attention_widen_kernel(bool to_f16);

struct AttentionWidened {
    int32_t dtype = 0;  // What is made; 0: nothing is.

    bool any() const { return dtype != 0; }
    int64_t workspace(const attile_attention_problem &problem) const;
    // The problem with such operands, and no addresses of theirs.
    attile_attention_problem plan_for(const attile_attention_problem &problem) const;
    // The same in the workspace, where they are made. INTERNAL if that is too small.
    int32_t make(Device &device, attile_attention_problem &problem, Workspace &workspace, Stream stream) const;
};

// Says so in a plan's text.
void name_widened(attile_support &support, int32_t dtype);

// Whether a device with tensor cores gets the problem so; nothing where it has no numbers of 8 bits, or kernels that read those are faster.
AttentionWidened attention_widened(const attile_attention_problem &problem);

}  // namespace attile::gpu::mma
