// SPDX-License-Identifier: Apache-2.0
// Cases of attention in 16 bits with heads of more than 256 columns, which several warps share: extents at, below and above a tile, each
// option, and values that are the first columns of keys.
#include "cases_attention_list.h"

namespace attile::test {
namespace {

using C = AttentionCase;
using P = AttentionPattern;

C wide(std::int64_t len_q, std::int64_t len_k, std::int64_t head_dim, std::int64_t head_dim_v) {
    C c = attention_of(len_q, len_k, head_dim);
    c.head_dim_v = head_dim_v;
    c.batch = 1;
    c.heads_q = c.heads_kv = 1;
    return c;
}

// Latent attention: all heads share one key head, and values are the first columns of keys.
C latent(std::int64_t len_q, std::int64_t len_k, std::int64_t heads) {
    C c = wide(len_q, len_k, 576, 512);
    c.heads_q = heads;
    c.values_in_keys = true;
    return c;
}

void add_extents(AttentionAdder add, Tier tier) {
    for (const auto &[d, dv] :
         {std::pair<int, int>{512, 512}, {576, 512}, {264, 264}, {320, 384}, {300, 260}, {40, 512}, {576, 8}, {257, 1}})
        for (const std::int64_t rows : {33, 67}) {
            if (tier != Tier::kFull && rows == 33 && d != 512) continue;
            C c = wide(rows, 150, d, dv);
            const std::string suffix = std::to_string(d) + "_" + std::to_string(dv) + "_len_" + std::to_string(rows);
            add("wide_" + suffix, c);
            c.heads_q = 2;
            c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
            c.sinks = true;
            add("wide_causal_" + suffix, c);
        }
    for (const std::int64_t keys : {1, 63, 64, 65, 127, 128, 129, 385}) add("wide_keys_" + std::to_string(keys), wide(40, keys, 512, 512));
    add("wide_577", wide(40, 70, 577, 512));
}

void add_options(AttentionAdder add, const C &plain, const std::string &suffix) {
    C c = plain;
    c.batch = 2;
    c.mask = ATTILE_MASK_WINDOW_BOTTOM_RIGHT;
    c.window_left = 40;
    c.window_right = 3;
    add("wide_window" + suffix, c);
    c = plain;
    c.batch = 4;
    c.key_lengths = true;
    add("wide_lengths" + suffix, c);
    c.key_starts = c.causal_offset = true;
    c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
    add("wide_starts_and_offsets" + suffix, c);
    c = plain;
    c.batch = 3;
    c.packed_q = c.packed_k = true;
    c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    add("wide_packed" + suffix, c);
    c.packed_k = false;
    c.page_size = 16;
    add("wide_packed_and_paged" + suffix, c);
    c = plain;
    c.batch = 2;
    c.page_size = 33;
    add("wide_paged" + suffix, c);
    c = plain;
    c.softcap = 1.5;
    add("wide_softcap" + suffix, c);
    c = plain;
    c.alibi = 1;
    c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    add("wide_alibi" + suffix, c);
    c = plain;
    c.bias = BiasKind::kSomeHidden;
    c.bias_poisoned = true;
    add("wide_bias" + suffix, c);
    c = plain;
    c.allowed = MaskBytes::kRandom;
    c.sinks = true;
    add("wide_allowed_sinks" + suffix, c);
    c.allowed = MaskBytes::kNothing;
    add("wide_nothing_allowed" + suffix, c);
    c = plain;
    c.scale = -0.04;
    c.lse = false;
    add("wide_negative_scale" + suffix, c);
    c = plain;
    c.batch = 2;
    c.flags = ATTILE_FLAG_BATCH_INVARIANT;
    add("wide_invariant" + suffix, c);
}

void add_patterns(AttentionAdder add, const C &plain, const std::string &suffix) {
    for (const auto &[name, pattern] : {std::pair<const char *, P>{"times_400", P::kTimes400},
                                        {"huge_late_key", P::kHugeLateKey},
                                        {"rising", P::kRising},
                                        {"nan_in_cache", P::kNanInCache},
                                        {"nan_in_query", P::kNanInQuery},
                                        {"infinite_keys", P::kInfiniteKeys}}) {
        C c = plain;
        c.pattern = pattern;
        c.mask = pattern == P::kNanInCache ? ATTILE_MASK_CAUSAL_BOTTOM_RIGHT : ATTILE_MASK_NONE;
        add(std::string("wide_") + name + suffix, c);
    }
}

// Values that are some of the keys' columns.
void add_values_of_keys(AttentionAdder add) {
    for (const auto &[d, dv] : {std::pair<int, int>{576, 256}, {576, 384}, {576, 392}, {512, 512}, {520, 448}, {320, 64}}) {
        C c = latent(33, 400, 2);
        c.head_dim = d;
        c.head_dim_v = dv;
        add("latent_" + std::to_string(d) + "_" + std::to_string(dv), c);
    }
}

// Few rows, whose keys are split.
void add_few_rows(AttentionAdder add, Tier tier) {
    C c = latent(1, 1000, 16);
    c.batch = 2;
    add("latent_of_16_heads", c);
    c.page_size = 64;
    add("latent_of_16_heads_paged", c);
    c.len_k = 90;
    c.alibi = 2;
    c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    add("latent_of_16_heads_paged_alibi", c);
    c.page_size = 0;
    c.allowed = MaskBytes::kRandom;
    add("latent_of_16_heads_allowed", c);
    c = latent(2, 700, 128);
    c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    add("latent_of_128_heads", c);
    c.page_size = 64;
    c.batch = 2;
    c.len_q = 1;
    add("latent_of_128_heads_paged", c);
    c = latent(1, 600, 5);
    c.sinks = true;
    c.batch = 3;
    c.key_lengths = true;
    add("latent_of_5_heads_lengths", c);
    c = wide(3, 900, 512, 512);
    c.heads_q = 8;
    c.heads_kv = 2;
    add("wide_few_rows", c);
    c.bias = BiasKind::kNormal;
    add("wide_few_rows_bias", c);
    if (tier == Tier::kFull) {
        c = latent(1, 5000, 128);
        add("latent_of_many_keys", c);
        c = latent(1, 700, 16);
        c.k_layout = {.pad = 1};
        add("latent_unreached", c);
    }
}

}  // namespace

void add_wide_attention_cases(AttentionAdder add, Tier tier) {
    if (add.types().in != ATTILE_F16 && add.types().in != ATTILE_BF16) return;
    add_extents(add, tier);
    C plain = wide(67, 139, 512, 512);
    plain.heads_q = 2;
    C of_keys = latent(45, 139, 2);
    for (const auto &[suffix, c] : {std::pair<const char *, C>{"", plain}, {"_of_keys", of_keys}}) {
        add_options(add, c, suffix);
        add_patterns(add, c, suffix);
    }
    C odd = plain;
    odd.q_layout = odd.k_layout = odd.v_layout = odd.o_layout = {.pad = 1};
    add("wide_unreached", odd);
    C heads_inside = plain;
    heads_inside.q_layout = heads_inside.k_layout = heads_inside.v_layout = heads_inside.o_layout = {.order = Order::kHeadsInside};
    add("wide_heads_inside", heads_inside);
    add_values_of_keys(add);
    add_few_rows(add, tier);
}

}  // namespace attile::test
