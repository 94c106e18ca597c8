// SPDX-License-Identifier: Apache-2.0
// What the kernels of attention's gradients are launched with: the forward problem, the gradients, and how the plan cut the work.
#pragma once

#include "attention/params.h"

namespace attile::gpu {

// Two numbers of a query row: its log-sum-exp, or infinity if the row has no part in anything, and delta = sum over d of dout o, less dlse.
template <class T>
struct BackwardRow {
    T lse, delta;
};

// A pair is a batch entry and a key head, or, where few of them would leave the device idle, a part of that head's group of query heads
// (attention_backward/mma/group_parts.h), which is a group of its own from then on. The rows of its group's query heads are cut into tiles,
// head by head: a unit is a tile of one head, number (head in the group) * row_tiles + tile. A launch takes `pairs` pairs and the units
// from first_unit to end_unit.
struct AttentionBackwardParams {
    AttentionParams forward;  // q, k and v may be rewritten copies. Of the cut, only `heads` is set: query heads.
    AttentionOperand dout;    // Likewise.
    AttentionOperand original_q, original_k, original_v, original_dout;  // As the caller gave them.
    AttentionOperand dlse, dq, dk, dv, dbias, dsinks;
    int64_t bias_extent[4];
    float scale, scale_low;  // The scale, and what its rounding left out.
    float softcap, inverse_softcap;

    Divider heads_kv;     // Heads of dk and dv.
    Divider group_parts;  // So many of them in a row share a head of K and V, whose gradients are their sum. 1: dk and dv are the caller's.
    Divider row_tiles;    // Of a head, by the longest entry.
    Divider key_blocks;   // Likewise.
    Divider pairs;        // Of this launch.
    Divider splits;
    Divider launch_units, launch_blocks;  // end_unit - first_unit, end_block - first_block
    int32_t block_rows, block_keys, depth;
    int32_t batch;
    uint32_t first_pair;
    int32_t first_unit, end_unit, split_units;
    int32_t first_block, end_block;    // The launch's blocks of keys; unless unfused, all of them.
    int32_t stores_rows, stores_keys;  // Unfused: dq, or dk and dv, are complete after this launch and stored to the caller's arrays.
    int32_t continues;                 // The sums of keys go on from what an earlier launch left.
    int32_t keys_first;                // Blocks of the same keys are launched together, the first keys first; else blocks of the same pair.
    int32_t rows_allotted;             // row_tiles * block_rows

    void *rows;           // BackwardRow: [batch][query head][rows_allotted]
    uint32_t *irregular;  // [batch][key head], before them one for all: not 0 if q, k, v or dout hold NaN or infinity there.
    int32_t irregular_only;

    float *part_q;                     // [pair of the launch][part][unit of the launch][block_rows][depth]
    int32_t parts_q;                   // One part a block of keys; unfused 1, which launches add to.
    float *probabilities, *gradients;  // Unfused: P and dS, [pair of the launch][unit of the launch][block_rows][scores_pitch].
    int32_t scores_pitch;              // (end_block - first_block) * block_keys, or more.
    float *sum_k;                      // [split][pair of the launch][key][depth], keys up to key_blocks * block_keys
    float *sum_v;                      // Likewise.
    void *part_bias;  // [pair of the launch][unit of the launch][block_rows][len_k]: gradients of the scores; null: no one asks.
    void *sum_bias;   // [bias_extent]
};

}  // namespace attile::gpu
