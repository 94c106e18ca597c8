// SPDX-License-Identifier: Apache-2.0
// What the launches of all Hopper kernels of attention by tiles have in common: TMA's maps, blocks and their counter.
#pragma once

#include "attention/mma/plan.h"
#include "attention/sm90/arguments.h"
#include "attention/sm90/plan.h"

namespace attile::gpu::sm90 {

inline constexpr int64_t kL2Bytes = 32ll << 20;  // Of K and V that tiles walked together may touch.

// Why TMA cannot reach an operand that ordinary loads reach; null: it can.
const char *unreachable(const attile_operand &operand, int64_t heads, int64_t rows, int64_t bytes);

// Blocks of a choice, and whether they draw tiles from a counter. is_even: tiles take equally long.
void choose_grid(Device &device, bool is_even, Sm90AttentionChoice &choice);

// Maps of elements of two bytes. Q: of the problem's columns; several heads of a pack in a box.
int32_t map_queries(Device &device, const attile_attention_problem &problem, const AttentionPlan &plan, AttentionArguments &a);
struct KeyBox {
    int64_t columns, keys, heads, entries;  // Of the operand.
    int32_t box_keys;
};
// Of K or V. moves: whether it has several heads, several entries.
int32_t map_key_boxes(Device &device, const attile_operand &keys, const KeyBox &box, int32_t &head_moves, int32_t &batch_moves,
                      TensorMap *map);
// Of O, where the kernel may store tiles of it; else a.has_map_o stays 0.
int32_t map_output(Device &device, const attile_attention_problem &problem, const AttentionPlan &plan, AttentionArguments &a);

// With everything else in `a`.
int32_t launch_tiles(Device &device, const attile_attention_problem &problem, const Sm90AttentionChoice &choice, AttentionArguments &a,
                     Workspace &workspace, Stream stream);

}  // namespace attile::gpu::sm90
