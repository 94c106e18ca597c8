// SPDX-License-Identifier: Apache-2.0
// Masks of blocks and of trees for kernels that know neither: a byte for each row and key says whether all masks but the diagonal's show
// the key, and the problem with those bytes as its one mask stands for the caller's.
#pragma once

#include "attention/params.h"
#include "device.h"
#include "host/workspace.h"

namespace attile::gpu::mma {

struct MaskBytesParams {
    AttentionParams of;  // The masks, and how long entries are.
    uint8_t *to;         // [entry][head][row][of_row pieces]
    uint32_t pairs;      // Of entry and head.
    Divider heads, of_row;
    int32_t rows;
};
inline constexpr int32_t kMaskBytesThreads = 256, kMaskBytesAtOnce = 16;  // Bytes of a row.
const void *attention_mask_bytes_kernel();

struct AttentionMaskBytes {
    // Entries and heads that differ; 0: nothing is made. Rows are a multiple of 16 bytes apart.
    int64_t entries = 0, heads = 0, rows = 0, row_bytes = 0;

    bool any() const { return entries != 0; }
    int64_t workspace() const;
    // The problem with that mask alone, and no address of it.
    attile_attention_problem plan_for(const attile_attention_problem &problem) const;
    // The same in the workspace, where it is made. INTERNAL if that is too small.
    int32_t make(Device &device, attile_attention_problem &problem, Workspace &workspace, Stream stream) const;
};

// Says so in a plan's text.
void name_mask_bytes(attile_support &support);

// Which of these masks a family has kernels for that need no bytes, where nothing else is done to scores.
enum class MaskKernels { kNone, kOfBlocks, kOfBlocksAndTrees };

// Nothing where there is no such mask or kernels have a way of their own, or there is a page table.
AttentionMaskBytes attention_mask_bytes(const attile_attention_problem &problem, MaskKernels kernels);

}  // namespace attile::gpu::mma
