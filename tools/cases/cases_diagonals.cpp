// SPDX-License-Identifier: Apache-2.0
// Cases of key_starts, causal_offset and packed rows beside keys that are not, and of gradients of lse: each kind of kernel has its own way
// to find the keys of a row.
#include "cases_attention_list.h"
#include "cases_backward_list.h"

namespace attile::test {
namespace {

// Calls add(name, case) for what a shape is asked with. `batch` is that of the shape: the first entries are ordinary, the others' lengths
// are out of range.
template <class Add>
void add_kinds(const AttentionCase &shape, const Add &add) {
    for (const std::int32_t mask : {ATTILE_MASK_NONE, ATTILE_MASK_CAUSAL_TOP_LEFT, ATTILE_MASK_WINDOW_BOTTOM_RIGHT}) {
        const bool is_window = mask == ATTILE_MASK_WINDOW_BOTTOM_RIGHT;
        const std::string suffix = mask == ATTILE_MASK_NONE ? "" : is_window ? "_window" : "_causal";
        AttentionCase plain = shape;
        plain.mask = mask;
        if (is_window) {
            plain.window_left = 40;
            plain.window_right = 5;
        }
        AttentionCase c = plain;
        c.key_starts = true;
        add("left_padding" + suffix, c);
        c.key_lengths = true;
        c.alibi = 1;
        add("left_padding_lengths_alibi" + suffix, c);
        c = plain;
        c.packed_q = true;
        add("rows_packed" + suffix, c);
        if (mask == ATTILE_MASK_NONE) {
            c = plain;
            c.causal_offset = true;
            c.alibi = 2;
            add("alibi_offset", c);
            continue;
        }
        c = plain;
        c.causal_offset = true;
        add("offset" + suffix, c);
        c.flags = ATTILE_FLAG_BATCH_INVARIANT;
        c.key_starts = true;
        add("offset_left_padding_batch_invariant" + suffix, c);
        c = plain;
        c.causal_offset = true;
        if (is_window) {  // Wider than rows and keys together, and still beyond some entries' keys.
            c.window_left = c.window_right = 1000;
            add("offset_wide_window", c);
            c = plain;
            c.causal_offset = true;
        }
        c.key_starts = c.sinks = c.packed_q = true;
        add("offset_left_padding_rows_packed" + suffix, c);
        c.packed_k = true;
        c.alibi = 1;
        add("offset_left_padding_packed" + suffix, c);
    }
}

}  // namespace

void add_diagonal_attention_cases(AttentionAdder add, Tier tier) {
    AttentionCase shape = attention_of(19, 70, 16);
    shape.batch = 4;
    const auto add_shape = [&](const std::string &name) {
        add_kinds(shape, [&](const std::string &kind, const AttentionCase &c) { add(kind + name, c); });
    };
    add_shape("");
    AttentionCase c = shape;
    c.page_size = 8;
    c.key_starts = true;
    add("left_padding_paged", c);
    c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    c.causal_offset = c.packed_q = true;
    add("offset_left_padding_paged", c);
    c = shape;
    c.key_starts = true;
    c.bias = BiasKind::kSomeHidden;
    c.allowed = MaskBytes::kRandom;
    add("left_padding_bias_allowed", c);
    shape = attention_of(1, 330, 64);  // Streamed.
    shape.batch = 4;
    add_shape("_decode");
    // Tiles, whole ones too, and those for tensor cores. What is stored wider than it is read is so after all that these options touch.
    if (add.types().in != add.types().out) return;
    const bool is_16_bit = add.types().in == ATTILE_F16 || add.types().in == ATTILE_BF16;
    if (tier != Tier::kFull && !is_16_bit && add.types().in != ATTILE_F32) return;
    for (const std::int64_t dim : {64, 128}) {
        shape = attention_of(200, 384, dim);
        shape.batch = 2;
        add_shape("_tiles_d" + std::to_string(dim));
    }
    shape = attention_of(70, 260, 256);
    shape.batch = 2;
    shape.heads_q = shape.heads_kv = 1;
    add_shape("_tiles_d256");
}

void add_diagonal_backward_cases(BackwardAdder add, bool is_16_bit) {
    AttentionCase shape = backward_of();
    shape.batch = 4;
    const auto add_shape = [&](const std::string &name) {
        add_kinds(shape, [&](const std::string &kind, const AttentionCase &c) { add(kind + name, c); });
        AttentionCase c = shape;
        add.with_dlse("lse" + name, c);
        c.sinks = c.packed_q = c.packed_k = true;
        c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        add.with_dlse("lse_packed" + name, c);
        c.causal_offset = c.key_starts = true;
        c.bias = BiasKind::kNormal;
        add.with_dlse("lse_with_everything" + name, c);
    };
    add_shape("");
    AttentionCase c = shape;
    c.packed_q = true;
    add.with_dlse("lse_rows_packed", c);
    c = shape;
    c.softcap = 1.5;
    add.with_dlse("lse_softcap", c);
    c.flags = ATTILE_FLAG_BATCH_INVARIANT;
    c.softcap = 0;
    c.key_starts = c.causal_offset = c.sinks = true;
    c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
    add.with_dlse("lse_batch_invariant", c);
    // dq, dk and dv are empty; dbias and dsinks are not 0.
    c = shape;
    c.head_dim = c.head_dim_v = 0;
    c.bias = BiasKind::kNormal;
    c.sinks = true;
    add.with_dlse("lse_no_columns", c);
    c.head_dim_v = 8;
    c.len_k = 0;
    c.bias = BiasKind::kNone;
    add.with_dlse("lse_no_columns_no_keys", c);
    if (add.types().in != add.types().out) return;
    for (const std::int64_t dim : {64, 128, 256}) {
        if (dim == 256 && !is_16_bit) break;
        shape = backward_of(130, 190, dim);
        shape.batch = 2;
        shape.heads_q = 2;
        shape.heads_kv = 1;
        add_shape("_tiles_d" + std::to_string(dim));
    }
}

}  // namespace attile::test
