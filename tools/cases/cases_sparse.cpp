// SPDX-License-Identifier: Apache-2.0
// Cases of block masks and tree masks. Lengths take several blocks, so that kernels have some to skip.
#include "cases_attention_list.h"
#include "cases_backward_list.h"

namespace attile::test {
namespace {

// Calls add(name, case) for what a shape is asked with. `most`: all of it, for the shapes and types whose code differs.
template <class Add>
void add_block_masks(const AttentionCase &shape, bool most, const Add &add) {
    AttentionCase c = shape;
    c.block_mask = MaskBytes::kRandom;
    c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    c.block_axes = 12;  // One mask for all entries and heads.
    c.block_rank = 2;
    add("blocks_causal", c);
    c = shape;
    c.block_mask = MaskBytes::kRandom;
    c.key_lengths = c.sinks = true;
    add("blocks_lengths_sinks", c);
    if (!most) return;
    c = shape;
    c.block_mask = MaskBytes::kRandom;
    add("blocks", c);
    c.mask = ATTILE_MASK_WINDOW_TOP_LEFT;
    c.window_left = 150;
    c.window_right = 20;
    c.block_axes = 14;
    c.block_rank = 3;
    add("blocks_window", c);
    c = shape;
    c.block_mask = MaskBytes::kRandom;
    c.packed_q = c.packed_k = true;
    c.batch = 4;
    add("blocks_packed", c);
    c = shape;
    c.block_mask = MaskBytes::kLeadingHidden;
    add("blocks_last", c);
    c.block_mask = MaskBytes::kNothing;
    add("blocks_none", c);
    c.block_mask = MaskBytes::kRandom;
    c.alibi = 1;
    c.allowed = MaskBytes::kRandom;
    add("blocks_alibi_allowed", c);
    c.flags = ATTILE_FLAG_BATCH_INVARIANT;
    c.allowed = MaskBytes::kNone;
    add("blocks_alibi_batch_invariant", c);
}

template <class Add>
void add_tree_masks(const AttentionCase &shape, const Add &add) {
    AttentionCase c = shape;
    c.tree_keys = std::min(shape.len_q, shape.len_k);
    add("tree", c);
    c.tree_axes = 4;  // One tree for all entries and heads, by a tensor of rows and columns.
    c.tree_rank = 2;
    c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    c.key_lengths = true;
    add("tree_causal_lengths", c);
    c = shape;
    c.tree_keys = std::min<std::int64_t>(shape.len_k, 70);
    c.packed_q = c.sinks = true;
    add("tree_rows_packed", c);
    c.packed_k = true;
    c.batch = 3;
    c.softcap = 20;
    add("tree_packed", c);
}

}  // namespace

void add_sparse_attention_cases(AttentionAdder add, Tier tier) {
    const auto add_shape = [&](const AttentionCase &shape, bool most, const std::string &name) {
        const auto add_named = [&](const std::string &kind, const AttentionCase &c) { add(kind + name, c); };
        add_block_masks(shape, most, add_named);
        add_tree_masks(shape, add_named);
    };
    const bool as_stored = add.types().in == add.types().out;
    AttentionCase shape = attention_of(150, 300, 16);
    shape.heads_kv = 1;
    shape.heads_q = 2;
    add_shape(shape, as_stored, "");
    shape.page_size = 16;
    shape.block_mask = MaskBytes::kRandom;
    add("blocks_paged", shape);
    shape.tree_keys = 9;
    add("blocks_tree_paged", shape);
    if (!as_stored) return;
    shape = attention_of(3, 700, 64);  // Streamed, in several splits.
    shape.heads_q = 8;
    add_shape(shape, false, "_decode");
    shape.page_size = 32;
    shape.tree_keys = 3;
    add("tree_paged_decode", shape);
    shape.head_dim = shape.head_dim_v = 128;
    add("tree_paged_decode_d128", shape);
    if (add.types().in == ATTILE_F64 || (tier != Tier::kFull && add.types().in == ATTILE_F16)) return;
    for (const std::int64_t dim : {64, 128}) {
        shape = attention_of(200, 390, dim);
        shape.batch = 1;
        shape.heads_q = 2;
        shape.heads_kv = 1;
        add_shape(shape, dim == 64, "_tiles_d" + std::to_string(dim));
    }
    shape.head_dim = shape.head_dim_v = 256;
    shape.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    shape.tree_keys = 100;
    shape.block_mask = MaskBytes::kRandom;
    add("blocks_tree_causal_tiles_d256", shape);
    shape.head_dim = 320;
    add("blocks_tree_causal_tiles_d320", shape);
    shape = attention_of(5, 1000, 128);
    shape.heads_q = 8;
    add("tree_decode_d128", [&] {
        AttentionCase c = shape;
        c.tree_keys = 5;
        c.key_lengths = true;
        return c;
    }());
}

void add_sparse_backward_cases(BackwardAdder add, bool is_16_bit) {
    const auto add_shape = [&](const AttentionCase &shape, bool most, const std::string &name) {
        const auto add_named = [&](const std::string &kind, const AttentionCase &c) { add(kind + name, c); };
        add_block_masks(shape, most, add_named);
        add_tree_masks(shape, add_named);
    };
    const bool as_stored = add.types().in == add.types().out;
    AttentionCase shape = backward_of(150, 280, 8);
    add_shape(shape, as_stored, "");
    if (!as_stored || add.types().in == ATTILE_F64) return;
    for (const std::int64_t dim : {64, 128}) {
        shape = backward_of(200, 300, dim);
        shape.batch = 1;
        shape.heads_q = 2;
        shape.heads_kv = 1;
        add_shape(shape, dim == 64, "_tiles_d" + std::to_string(dim));
    }
    if (!is_16_bit) return;
    shape.head_dim = shape.head_dim_v = 256;
    shape.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    shape.block_mask = MaskBytes::kRandom;
    add("blocks_causal_tiles_d256", shape);
    shape.tree_keys = 100;
    add("blocks_tree_causal_tiles_d256", shape);
    // Blocks of keys that add to one tile of rows with hidden ones before, between and after them.
    for (const std::int64_t dim : {64, 128}) {
        shape = backward_of(500, 1100, dim);
        shape.batch = 1;
        shape.heads_q = 4;
        shape.heads_kv = 2;
        shape.block_mask = MaskBytes::kRandom;
        add("blocks_by_head_many_tiles_d" + std::to_string(dim), shape);
    }
}

}  // namespace attile::test
