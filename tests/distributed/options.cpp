// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <iterator>

namespace attile::test {
namespace {

void window(AttentionCase &c, std::int32_t mask, std::int64_t left, std::int64_t right) {
    c.mask = mask;
    c.window_left = left;
    c.window_right = right;
}

// Five sequences of up to so many rows and keys.
void pack(AttentionCase &c) {
    c.packed_q = c.packed_k = true;
    c.batch = 5;
    c.len_q = 12;
    c.len_k = 14;
}

const Option kList[] = {
    {"plain", [](AttentionCase &) {}},
    {"causal_top_left", [](AttentionCase &c) { c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT; }},
    {"causal_bottom_right", [](AttentionCase &c) { c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT; }},
    {"causal_square", [](AttentionCase &c) { c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT, c.len_k = c.len_q; }},
    {"window_top_left", [](AttentionCase &c) { window(c, ATTILE_MASK_WINDOW_TOP_LEFT, 5, 2); }},
    {"window_bottom_right", [](AttentionCase &c) { window(c, ATTILE_MASK_WINDOW_BOTTOM_RIGHT, 3, -1); }},
    {"window_one", [](AttentionCase &c) { window(c, ATTILE_MASK_WINDOW_TOP_LEFT, 0, 0); }},
    {"mqa", [](AttentionCase &c) { c.heads_kv = 1; }},
    {"gqa_uneven", [](AttentionCase &c) { c.heads_q = 9, c.heads_kv = 3, c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT; }},
    {"softcap_scale", [](AttentionCase &c) { c.softcap = 2, c.scale = -0.5; }},
    {"alibi", [](AttentionCase &c) { c.alibi = 1; }},
    {"alibi_causal", [](AttentionCase &c) { c.alibi = 2, c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT; }},
    {"alibi_bottom_right", [](AttentionCase &c) { c.alibi = 1, c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT, c.key_lengths = true; }},
    {"alibi_bias", [](AttentionCase &c) { c.alibi = 2, c.bias = BiasKind::kNormal, c.bias_axes = 13; }},
    {"sinks", [](AttentionCase &c) { c.sinks = true, c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT; }},
    {"bias", [](AttentionCase &c) { c.bias = BiasKind::kSomeHidden; }},
    {"bias_broadcast", [](AttentionCase &c) { c.bias = BiasKind::kNormal, c.bias_axes = 8, c.bias_rank = 3; }},
    {"bias_rows", [](AttentionCase &c) { c.bias = BiasKind::kRowsHidden, c.bias_axes = 7; }},
    {"allowed", [](AttentionCase &c) { c.allowed = MaskBytes::kRandom, c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT; }},
    {"allowed_broadcast", [](AttentionCase &c) { c.allowed = MaskBytes::kRandom, c.allowed_axes = 12; }},
    {"key_lengths", [](AttentionCase &c) { c.key_lengths = true, c.batch = 3; }},
    {"key_lengths_causal", [](AttentionCase &c) { c.key_lengths = true, c.batch = 3, c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT; }},
    {"nan_in_query", [](AttentionCase &c) { c.pattern = AttentionPattern::kNanInQuery; }},
    {"infinite_keys", [](AttentionCase &c) { c.pattern = AttentionPattern::kInfiniteKeys, c.sinks = true; }},
    {"bias_poisoned", [](AttentionCase &c) { c.bias = BiasKind::kSomeHidden, c.bias_poisoned = true; }},
    {"few_rows", [](AttentionCase &c) { c.len_q = 2, c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT; }},
    {"one_row", [](AttentionCase &c) { c.len_q = 1; }},
    {"few_keys", [](AttentionCase &c) { c.len_k = 3; }},
    {"no_keys", [](AttentionCase &c) { c.len_k = 0; }},
    {"no_rows", [](AttentionCase &c) { c.len_q = 0; }},
    {"no_dimension_without_lse", [](AttentionCase &c) { c.head_dim = 0, c.lse = false; }},
    {"packed", [](AttentionCase &c) { pack(c); }},
    {"packed_causal", [](AttentionCase &c) { pack(c), c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT, c.alibi = 2, c.sinks = true; }},
    {"packed_bias", [](AttentionCase &c) { pack(c), c.bias = BiasKind::kSomeHidden, c.alibi = 1, c.allowed = MaskBytes::kRandom; }},
    {"packed_bias_broadcast", [](AttentionCase &c) { pack(c), c.bias = BiasKind::kNormal, c.bias_axes = 10, c.bias_rank = 3; }},
    {"packed_cut", [](AttentionCase &c) { pack(c), c.max_len_cut = 4, c.key_lengths = true, c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT; }},
    {"packed_window", [](AttentionCase &c) { pack(c), c.give_max_len = false, window(c, ATTILE_MASK_WINDOW_BOTTOM_RIGHT, 4, 1); }},
    {"strides",
     [](AttentionCase &c) {
         c.q_layout.order = c.k_layout.order = c.o_layout.order = Order::kHeadsInside;
         c.v_layout.order = Order::kFortran;
         c.q_layout.reversed = 4, c.k_layout.pad = 3, c.v_layout.offset = 1, c.o_layout.pad = 2, c.o_layout.step = 2;
     }},
};

}  // namespace

const std::vector<Option> &options() {
    static const std::vector<Option> list(std::begin(kList), std::end(kList));
    return list;
}

AttentionCase case_of(const Option &option, std::int32_t dtype) {
    AttentionCase c;
    c.dtype = c.out_dtype = dtype;
    c.bias_dtype = dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32;
    c.len_q = 21;
    c.len_k = 26;
    c.heads_q = 4;
    c.heads_kv = 2;
    c.head_dim = 8;
    c.head_dim_v = 5;
    c.seed = 7;
    option.set(c);
    return c;
}

BackwardCase gradients_of(AttentionCase forward, std::size_t variant) {
    BackwardCase c;
    forward.lse = true;
    c.forward = forward;
    c.dout_dtype = forward.dtype;
    // Every other case has gradients in float32, where its type allows them.
    c.grad_dtype = variant % 2 == 0 ? forward.dtype : ATTILE_F32;
    c.dbias_dtype = forward.bias_dtype;
    return c;
}

}  // namespace attile::test
