// SPDX-License-Identifier: Apache-2.0
// Cases of attention's gradients: what the forward list has, smaller, without pages.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "cases_backward_list.h"

namespace attile::test {
namespace {

void add_features(BackwardAdder add) {
    add("plain", backward_of());
    AttentionCase c = backward_of();
    c.scale = -0.3;
    c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    add("scale_causal", c);
    c.mask = ATTILE_MASK_NONE;
    c.softcap = 1.5;
    add("scale_and_softcap", c);
    const char *masks[] = {"", "causal_top_left", "causal_bottom_right", "window_top_left", "window_bottom_right"};
    for (std::int32_t mask = 1; mask <= 4; ++mask)
        for (const bool tall : {false, true}) {
            c = tall ? backward_of(37, 18) : backward_of(18, 37);
            c.mask = mask;
            if (mask >= ATTILE_MASK_WINDOW_TOP_LEFT) {
                c.window_left = 5;
                c.window_right = 1;
            }
            add(std::string(masks[mask]) + (tall ? "_more_rows" : ""), c);
        }
    for (const auto &[name, axes, rank] : {std::tuple<const char *, int, int>{"full", 15, 4},
                                           {"of_keys", 8, 1},
                                           {"of_heads_and_keys", 10, 3},
                                           {"of_rows_and_keys", 12, 2},
                                           {"of_rows", 4, 4},
                                           {"of_batch", 1, 4}}) {
        c = backward_of(9, 13);
        c.bias = BiasKind::kNormal;
        c.bias_axes = static_cast<std::uint8_t>(axes);
        c.bias_rank = static_cast<std::uint8_t>(rank);
        add(std::string("dbias_") + name, c);
    }
    c = backward_of();
    c.bias = BiasKind::kRowsHidden;
    add("dbias_of_hidden_rows", c);
    // An element sums over more entries and heads than a kernel finds at a time, and few of them see the last keys.
    for (const bool packed : {false, true}) {
        c = backward_of(20, 140);
        c.batch = 9;
        c.heads_q = 4;
        c.heads_kv = 2;
        c.head_dim = c.head_dim_v = 32;
        c.bias = BiasKind::kNormal;
        c.bias_axes = 12;
        c.bias_rank = 2;
        c.key_lengths = !packed;
        c.packed_q = c.packed_k = packed;
        add(packed ? "dbias_of_many_packed_entries" : "dbias_of_many_entries", c);
        c.flags = ATTILE_FLAG_BATCH_INVARIANT;
        add(packed ? "dbias_of_many_packed_entries_batch_invariant" : "dbias_of_many_entries_batch_invariant", c);
    }
    c = backward_of();
    c.allowed = MaskBytes::kRandom;
    add("allowed", c);
    c.allowed = MaskBytes::kNothing;
    c.sinks = true;
    add("allowed_nothing_but_sinks", c);
    c = backward_of();
    c.alibi = 2;
    c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    add("alibi", c);
    c = backward_of();
    c.sinks = true;
    add("dsinks", c);
    c = backward_of();
    c.batch = 4;
    c.key_lengths = true;
    add("key_lengths", c);
    c.packed_q = c.packed_k = true;
    c.key_lengths = false;
    add("packed", c);
    c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    c.sinks = true;
    c.alibi = 1;
    c.key_lengths = true;
    add("packed_with_everything", c);
}

void add_shapes(BackwardAdder add) {
    for (const std::int64_t d : {1, 8, 40, 59, 64, 96, 111, 128, 192, 256}) {
        AttentionCase c = backward_of(17, 35, d);
        c.batch = 1;
        c.heads_q = 2;
        c.heads_kv = 1;
        c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        add("head_dim_" + std::to_string(d), c);
    }
    AttentionCase c = backward_of(9, 35);
    c.head_dim = 64;
    c.head_dim_v = 24;
    add("head_dims_64_24", c);
    for (const auto &[d, dv] : {std::pair<int, int>{0, 8}, {8, 0}, {0, 0}}) {
        c = backward_of(9, 35);
        c.head_dim = d;
        c.head_dim_v = dv;
        add("head_dims_" + std::to_string(d) + "_" + std::to_string(dv), c);
    }
    for (const auto &[hq, hkv] : {std::pair<int, int>{1, 1}, {4, 4}, {8, 1}, {6, 3}}) {
        c = backward_of(9, 11);
        c.heads_q = hq;
        c.heads_kv = hkv;
        add("heads_" + std::to_string(hq) + "_" + std::to_string(hkv), c);
    }
    for (const auto &[q, k] : {std::pair<int, int>{1, 1}, {1, 65}, {65, 1}, {64, 64}, {97, 33}})
        add("len_" + std::to_string(q) + "_" + std::to_string(k), backward_of(q, k));
    for (const auto &[q, k] : {std::pair<int, int>{0, 5}, {5, 0}})
        add("empty_" + std::to_string(q) + "_" + std::to_string(k), backward_of(q, k));
    c = backward_of(40, 520, 16);  // Few pairs of many keys: blocks of the same rows work at once.
    c.batch = 1;
    c.heads_q = 2;
    c.heads_kv = 1;
    add("few_pairs_of_many_keys", c);
    for (const std::int64_t d : {32, 64}) {  // So few blocks that smaller tiles make more of them.
        c = backward_of(100, 60, d);
        c.batch = 1;
        c.heads_q = c.heads_kv = 1;
        c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        add("one_pair_d" + std::to_string(d), c);
    }
    c = backward_of();
    c.q_layout = c.k_layout = c.v_layout = c.o_layout = {.order = Order::kHeadsInside, .pad = 1};
    add("blhd", c);
    c.q_layout = c.k_layout = c.v_layout = c.o_layout = {.order = Order::kFortran, .offset = 1};
    add("fortran", c);
    for (const auto &[name, pattern] :
         {std::pair{"scores_x36", AttentionPattern::kTimes36}, {"huge_late_key", AttentionPattern::kHugeLateKey}}) {
        c = backward_of();
        c.pattern = pattern;
        add(name, c);
    }
}

// One option of scores and no gradient of a bias, several tiles of rows and keys, an even number of keys side by side: kernels may have
// ways of their own for these. Where a mask or a length hides keys, what nobody may read of the bias is NaN; from the top left the last row
// does not see the last keys.
void add_single_options(BackwardAdder add, Tier tier) {
    struct Mask {
        const char *suffix;
        std::int32_t mask;
        bool key_lengths;
    };
    for (const std::int64_t dim : {64, 128, 256})
        for (const Mask &mask : {Mask{"", ATTILE_MASK_NONE, false}, Mask{"_masked", ATTILE_MASK_CAUSAL_BOTTOM_RIGHT, true},
                                 Mask{"_top_left", ATTILE_MASK_CAUSAL_TOP_LEFT, false}}) {
            if (dim > 64 && tier == Tier::kQuick) continue;
            AttentionCase plain = backward_of(70, 134, dim);
            plain.batch = mask.key_lengths ? 2 : 1;
            plain.heads_q = 2;
            plain.heads_kv = 1;
            plain.key_lengths = mask.key_lengths;
            plain.mask = mask.mask;
            const std::string suffix = (dim == 64 ? "" : "_d" + std::to_string(dim)) + mask.suffix;
            AttentionCase c = plain;
            for (const auto &[name, kind] :
                 {std::pair<const char *, BiasKind>{"bias", BiasKind::kNormal}, {"bias_hides_some", BiasKind::kSomeHidden}}) {
                c.bias = kind;
                add(std::string("alone_") + name + suffix, c, false);
            }
            c.alibi = 1;
            add("bias_and_alibi" + suffix, c, false);
            c = plain;
            c.allowed = MaskBytes::kRandom;
            add("alone_allowed" + suffix, c);
            c = plain;
            c.alibi = 1;
            add("alone_alibi" + suffix, c);
            c = plain;
            c.softcap = 1.5;
            add("alone_softcap" + suffix, c);
        }
}

// Few key heads for many query heads: kernels may compute dk and dv of parts of a group and add them up, of whole tiles and of what is
// left.
void add_groups(BackwardAdder add, bool is_16_bit) {
    for (const std::int64_t dim : {64, 128, 256}) {
        const std::string suffix = dim == 64 ? "" : "_d" + std::to_string(dim);
        AttentionCase plain = backward_of(70, 134, dim);
        plain.batch = 1;
        plain.heads_q = 6;
        plain.heads_kv = 1;
        add("few_key_heads" + suffix, plain);
        AttentionCase c = plain;
        c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        c.sinks = c.key_lengths = true;
        c.batch = 2;
        add("few_key_heads_causal" + suffix, c);
        c = plain;
        c.heads_q = 12;
        c.heads_kv = 2;
        c.batch = 2;
        c.len_q = 35;
        c.q_layout = c.k_layout = c.v_layout = c.o_layout = {.order = Order::kHeadsInside};
        add("few_key_heads_of_two_heads" + suffix, c);
        c.bias = BiasKind::kSomeHidden;
        add("few_key_heads_of_two_heads_dbias" + suffix, c);
        c = plain;
        c.pattern = AttentionPattern::kNanInQuery;
        add("few_key_heads_nan" + suffix, c);
        c = plain;
        c.flags = ATTILE_FLAG_BATCH_INVARIANT;
        add("few_key_heads_batch_invariant" + suffix, c);
        c = plain;
        c.batch = 3;
        c.packed_q = c.packed_k = true;
        add("few_key_heads_packed" + suffix, c);
        if (dim == 256) continue;
        c = plain;
        c.mask = ATTILE_MASK_WINDOW_TOP_LEFT;
        c.window_left = 20;
        c.window_right = 3;
        c.len_q = 200;
        add("few_key_heads_window" + suffix, c);
        c = plain;
        c.bias = BiasKind::kNormal;
        add("few_key_heads_bias" + suffix, c, false);
        c = plain;
        c.allowed = MaskBytes::kLeadingHidden;
        add("few_key_heads_allowed" + suffix, c);
        c = plain;
        c.alibi = 2;
        c.batch = 2;
        add("few_key_heads_alibi" + suffix, c);
        c.softcap = 1.5;
        add("few_key_heads_alibi_softcap" + suffix, c);
        c.alibi = 0;
        add("few_key_heads_softcap" + suffix, c);
        if (dim == 128) continue;
        c = plain;
        c.pattern = AttentionPattern::kInfiniteKeys;
        c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
        add("few_key_heads_infinite_keys", c);
        c = plain;
        c.len_q = 0;
        add("few_key_heads_empty", c);
        c = plain;
        c.q_layout = c.k_layout = c.v_layout = c.o_layout = {.pad = 1};
        if (is_16_bit) add("few_key_heads_unreached", c);
    }
}

// As the forward list has them (cases_attention_operands.cpp).
void add_operands(BackwardAdder add) {
    AttentionCase c = backward_of();
    c.batch = 4;
    c.numbers_layout = {.pad = 1, .step = 3, .offset = 1};
    c.key_lengths = c.sinks = true;
    c.alibi = 2;
    c.bias = BiasKind::kNormal;
    add("strided_numbers", c);
    c.packed_q = c.packed_k = true;
    add("strided_packed", c);
    c = backward_of();
    c.batch = 4;
    c.packed_q = c.packed_k = true;
    c.max_len_cut = 5;
    add("cut_sequences", c);
    c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    add("cut_sequences_bottom_right", c);
    c = backward_of(3, 5);
    c.batch = 11;
    add("batch_of_11", c);
    c = backward_of(3, 5, 264);
    c.head_dim_v = 300;
    c.batch = 1;
    add("head_dims_264_300", c);
    c = backward_of();
    c.softcap = 1.5;
    c.bias = BiasKind::kNormal;
    add("softcap_and_dbias", c);
}

// In 16 bits, rows that TMA cannot reach, and columns that 8 does not divide: kernels for tensor cores read and write copies.
void add_unreached(BackwardAdder add) {
    constexpr Layout kOdd = {.pad = 1};
    for (const auto &[dim, dim_v] : {std::pair{64, 64}, {36, 36}, {72, 21}, {160, 130}}) {
        const std::string suffix = "_d" + std::to_string(dim) + "_" + std::to_string(dim_v);
        AttentionCase plain = backward_of(67, 133, dim);
        plain.head_dim_v = dim_v;
        AttentionCase c = plain;
        c.q_layout = {.pad = 3, .offset = 1};
        add("unreached_q" + suffix, c);
        c = plain;
        c.v_layout = {.pad = 1, .broadcast = 2};
        c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
        add("unreached_v" + suffix, c);
        c = plain;
        c.q_layout = c.k_layout = c.v_layout = c.o_layout = kOdd;
        add("unreached" + suffix, c);
        c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        c.sinks = true;
        add("unreached_causal_sinks" + suffix, c);
        c.bias = BiasKind::kSomeHidden;
        add("unreached_bias" + suffix, c, false);
        add("unreached_dbias" + suffix, c);
        c.bias = BiasKind::kNone;
        c.packed_q = c.packed_k = true;
        add("unreached_packed" + suffix, c);
        c.pattern = AttentionPattern::kInfiniteKeys;
        add("unreached_infinite_keys" + suffix, c);
    }
    // An odd number of keys: rows of a bias or mask alone do not lie in pairs.
    for (const int dim : {64, 128}) {
        const std::string suffix = "_d" + std::to_string(dim);
        AttentionCase c = backward_of(67, 133, dim);
        c.bias = BiasKind::kNormal;
        add("odd_keys_bias" + suffix, c, false);
        c.bias_axes = 12;
        add("odd_keys_dbias_of_rows" + suffix, c);
        c.bias = BiasKind::kNone;
        c.allowed = MaskBytes::kRandom, c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        add("odd_keys_allowed" + suffix, c);
        c.allowed = MaskBytes::kNone, c.tree_keys = 9;
        add("odd_keys_tree" + suffix, c);
    }
}

// As the forward list has them (cases_attention_extreme.cpp); 35 keys and more than a block.
void add_extremes(BackwardAdder add, bool f64) {
    for (const std::int64_t len_k : {35, 150}) {
        const std::string suffix = "_len_" + std::to_string(len_k);
        AttentionCase c = backward_of(19, len_k);
        c.pattern = AttentionPattern::kExact;
        for (const int power : {33, f64 ? 400 : 100}) {
            c.scale = std::ldexp(1.0, power);
            add("huge_scores_2e" + std::to_string(power) + suffix, c);
        }
        c = backward_of(19, len_k);
        c.bias = BiasKind::kLowest;
        if (!f64) add("huge_bias_lowest" + suffix, c);  // in float64 the sizes of what is rounded overflow
        c = backward_of(19, len_k);
        for (const auto &[name, cap] : {std::pair<const char *, double>{"1e39", 1e39}, {"1e30", 1e30}}) {
            c.softcap = cap;
            add(std::string("huge_softcap_") + name + suffix, c);
        }
        c = backward_of(19, len_k);
        c.pattern = AttentionPattern::kInfiniteKeys;
        add("minus_infinity_scores" + suffix, c);
    }
}

}  // namespace

void append_backward_cases(std::vector<Case> &list, Tier tier) {
    for (const TypePair types : kTypePairs) {
        const BackwardAdder add(list, types);
        add_features(add);
        add_shapes(add);
        add_single_options(add, tier);
        const bool is_16_bit = types.in == ATTILE_F16 || types.in == ATTILE_BF16;
        if (types.in != ATTILE_F64) {
            add_groups(add, is_16_bit);
            add_few_row_backward_cases(add, tier, is_16_bit);
            add_shared_bias_backward_cases(add, tier);
        }
        add_operands(add);
        add_diagonal_backward_cases(add, is_16_bit);
        add_sparse_backward_cases(add, is_16_bit);
        if (is_16_bit) {
            add_unreached(add);
            add_sliced_backward_cases(add);
            add_wide_packed_backward_cases(add);
        }
        add_extremes(add, types.in == ATTILE_F64);
    }
    const std::uint64_t count = tier == Tier::kQuick ? 20 : 150;
    for (std::uint64_t seed = 1; seed <= count; ++seed)
        list.push_back({"attention_backward.random." + std::to_string(seed), random_backward(seed)});
}

BackwardCase random_backward(std::uint64_t seed) {
    Random random(seed * 8 + 6);
    BackwardCase c;
    c.forward = random_attention(seed + 1'000'000);
    AttentionCase &f = c.forward;
    if (f.page_size != 0) {  // gradients of pages are refused
        f.page_size = 0;
        f.packed_k = f.packed_q;
    }
    f.lse = true;
    while (f.batch * f.heads_q * f.len_q * f.len_k * (f.head_dim + f.head_dim_v) > 1'000'000) (f.len_q > f.len_k ? f.len_q : f.len_k) /= 2;
    c.dout_dtype = random.chance(0.5) ? f.dtype : f.out_dtype;
    c.grad_dtype = random.chance(0.3) ? ATTILE_F32 : f.dtype;
    c.dbias_dtype = random.chance(0.5) ? ATTILE_F32 : f.bias_dtype;
    c.dbias = random.chance(0.8);
    c.dsinks = random.chance(0.8);
    c.dlse = random.chance(0.2);
    return c;
}

std::string describe(const BackwardCase &c) {
    Words words;
    words.add("dout_type", dtype_name(c.dout_dtype))
        .add("grad_type", dtype_name(c.grad_dtype))
        .add("dbias_type", dtype_name(c.dbias_dtype));
    words.add_unless("dbias", c.dbias, true).add_unless("dsinks", c.dsinks, true).add_unless("dlse", c.dlse, false);
    return describe(c.forward) + " " + words.text();
}

}  // namespace attile::test
