// SPDX-License-Identifier: Apache-2.0
// Cases of attention's gradients of several tiles.
#include "cases_backward_list.h"

#include <utility>

namespace attile::test {

void add_few_row_backward_cases(BackwardAdder add, Tier tier, bool is_16_bit) {
    for (const std::int64_t dim : {64, 128, 256}) {
        if (dim == 256 && !is_16_bit) continue;  // For tensor cores, whose kernels of such heads make dq by itself.
        const std::string suffix = dim == 64 ? "" : "_d" + std::to_string(dim);
        AttentionCase plain = backward_of(70, 1100, dim);
        plain.batch = plain.heads_q = plain.heads_kv = 1;
        add("few_rows" + suffix, plain);
        AttentionCase c = plain;
        c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
        add("few_rows_top_left" + suffix, c);
        if (dim == 256) continue;
        c = plain;
        c.batch = 3;
        c.key_lengths = true;
        c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        add("few_rows_bottom_right" + suffix, c);
        c.key_lengths = false;
        c.packed_q = c.packed_k = true;
        add("few_rows_packed" + suffix, c);
        c = plain;
        c.pattern = AttentionPattern::kNanInQuery;
        add("few_rows_nan" + suffix, c);
        c = plain;
        c.flags = ATTILE_FLAG_BATCH_INVARIANT;
        add("few_rows_batch_invariant" + suffix, c);
    }
    // Kernels that cut rows and keys into as many pieces have some without keys.
    AttentionCase few_keys = backward_of(300, 100, 64);
    few_keys.batch = 1;
    few_keys.heads_q = few_keys.heads_kv = 4;
    add("rows_of_three_pieces", few_keys);
    few_keys.len_k = 260;
    few_keys.batch = 2;
    few_keys.key_lengths = true;
    add("rows_and_keys_of_three_pieces", few_keys);
    // A mask's edge one key past the end of a tile of 64: that tile is not whole.
    AttentionCase edge = backward_of(256, 256, 64);
    edge.batch = edge.heads_q = edge.heads_kv = 1;
    edge.mask = ATTILE_MASK_WINDOW_TOP_LEFT;
    edge.window_left = 150;
    edge.window_right = 62;
    add("window_ends_in_a_tile", edge);
    std::swap(edge.window_left, edge.window_right);
    add("window_begins_in_a_tile", edge);
    if (tier == Tier::kQuick) return;
    AttentionCase c =
        backward_of(192, 640, 128);  // On a device of five multiprocessors and a small cache: a gang that begins close together.
    c.batch = c.heads_kv = 1;
    c.heads_q = 7;
    add("gang", c);
    c.batch = 3;  // Of ten: two pairs at a time, and one is left.
    c.heads_q = 4;
    c.key_lengths = true;
    add("gang_of_pairs", c);
}

void add_shared_bias_backward_cases(BackwardAdder add, Tier tier) {
    constexpr std::uint8_t kOfHeads = 14, kOfAll = 12, kOfBatch = 13;
    for (const std::int64_t dim : {64, 72, 160}) {
        if (dim == 160 && tier == Tier::kQuick) continue;
        const std::string suffix = dim == 64 ? "" : "_d" + std::to_string(dim);
        AttentionCase plain = backward_of(140, 150, dim);
        plain.batch = 3;
        plain.heads_q = 4;
        plain.heads_kv = 2;
        plain.bias = BiasKind::kNormal;
        plain.bias_axes = kOfAll;
        add("shared_bias" + suffix, plain);
        AttentionCase c = plain;
        c.bias = BiasKind::kSomeHidden;
        c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        c.key_lengths = c.sinks = true;
        add("shared_bias_causal" + suffix, c);
        c = plain;
        c.bias_axes = kOfHeads;
        c.mask = ATTILE_MASK_WINDOW_TOP_LEFT;
        c.window_left = 20;
        c.window_right = 3;
        c.packed_q = c.packed_k = true;
        add("shared_bias_of_heads" + suffix, c);
        c = plain;
        c.bias_axes = kOfBatch;
        c.allowed = MaskBytes::kRandom;
        add("shared_bias_of_batch_allowed" + suffix, c);
        c = plain;
        c.alibi = 2;
        c.softcap = 1.5;
        c.heads_kv = 4;
        add("shared_bias_alibi_softcap" + suffix, c);
        if (dim != 64) continue;
        c = plain;
        c.pattern = AttentionPattern::kNanInQuery;
        add("shared_bias_nan", c);
        c.pattern = AttentionPattern::kInfiniteKeys;
        c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
        add("shared_bias_infinite_keys", c);
        c = plain;
        c.flags = ATTILE_FLAG_BATCH_INVARIANT;
        add("shared_bias_batch_invariant", c);
        c = plain;
        c.bias = BiasKind::kRowsHidden;
        c.head_dim_v = 136;
        add("shared_bias_hidden_rows", c);
    }
}

void add_wide_packed_backward_cases(BackwardAdder add) {
    AttentionCase cut = backward_of(130, 70, 256);  // Sequences end within a tile, the longest before rows and keys that nobody may read.
    cut.batch = 3;
    cut.heads_q = cut.heads_kv = 2;
    cut.packed_q = cut.packed_k = true;
    cut.max_len_cut = 5;
    add("wide_packed", cut);
    AttentionCase c = cut;
    c.heads_q = 4;
    c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
    add("wide_packed_top_left", c);
    c.head_dim = 192;
    c.head_dim_v = 128;
    c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    c.key_lengths = c.sinks = true;
    add("wide_packed_bottom_right_d192_128", c);
    c = cut;
    c.heads_q = 6;
    c.heads_kv = 1;
    c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
    add("wide_packed_few_key_heads", c);
    c.flags = ATTILE_FLAG_BATCH_INVARIANT;
    add("wide_packed_batch_invariant", c);
    c = cut;  // 37, 57, 64, none and 28 rows, and 29, 11, 64, 21 and 32 keys.
    c.len_q = c.len_k = 64;
    c.batch = 5;
    c.max_len_cut = 0;
    c.seed = 6;
    add("wide_packed_of_a_tile", c);
    c = cut;  // Some without rows, none longer than three, and up to three tiles of keys.
    c.len_q = 3;
    c.len_k = 150;
    c.batch = 6;
    c.head_dim = 160;
    c.max_len_cut = 0;
    add("wide_packed_few_rows_d160_256", c);
    c = cut;
    c.len_q = 70;
    c.len_k = 134;
    c.head_dim = c.head_dim_v = 192;
    c.mask = ATTILE_MASK_WINDOW_BOTTOM_RIGHT;
    c.window_left = 70;
    c.window_right = 3;
    c.q_layout = c.k_layout = c.v_layout = c.o_layout = {.order = Order::kHeadsInside};
    add("wide_packed_window_d192", c);
    c = cut;
    c.alibi = 2;
    add("wide_packed_alibi", c);
    c.alibi = 0;
    c.softcap = 1.5;
    add("wide_packed_softcap", c);
    c.softcap = 0;
    c.allowed = MaskBytes::kRandom;
    add("wide_packed_allowed", c);
    c.allowed = MaskBytes::kNone;
    c.bias = BiasKind::kSomeHidden;
    add("wide_packed_dbias", c);
}

}  // namespace attile::test
