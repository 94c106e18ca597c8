// SPDX-License-Identifier: Apache-2.0
// Cases of attention where one thing is done to scores.
#include <string>
#include <utility>

#include "cases.h"
#include "cases_attention.h"
#include "cases_attention_list.h"

namespace attile::test {
namespace {

using C = AttentionCase;
using P = AttentionPattern;

// A case with a bias alone, one with a boolean mask, and one with ALiBi.
void add_each_operand(AttentionAdder add, const std::string &alone, const std::string &what, const C &plain) {
    C c = plain;
    c.bias = BiasKind::kNormal;
    add(alone + "bias" + what, c);
    c = plain;
    c.allowed = MaskBytes::kRandom;
    add(alone + "allowed" + what, c);
    c = plain;
    c.alibi = 1;
    add(alone + "alibi" + what, c);
}

// One modifier of scores, several tiles of rows and keys, everything in quads: kernels may have ways of their own for these.
void add_single_modifiers(AttentionAdder add, std::int64_t dim) {
    const std::string alone = dim == 64 ? "alone_" : "alone_d" + std::to_string(dim) + "_";
    C plain = attention_of(140, 196, dim);
    plain.batch = plain.heads_q = plain.heads_kv = 1;
    for (const std::int32_t mask :
         {ATTILE_MASK_NONE, ATTILE_MASK_CAUSAL_TOP_LEFT, ATTILE_MASK_CAUSAL_BOTTOM_RIGHT, ATTILE_MASK_WINDOW_TOP_LEFT}) {
        const auto with = [&](const char *what, C c) {
            c.mask = mask;
            c.window_left = mask == ATTILE_MASK_WINDOW_TOP_LEFT ? 40 : 0;
            c.window_right = mask == ATTILE_MASK_WINDOW_TOP_LEFT ? 30 : 0;
            add(alone + what + "_mask_" + std::to_string(mask), c);
        };
        C c = plain;
        for (const auto &[what, kind] : {std::pair<const char *, BiasKind>{"bias", BiasKind::kNormal},
                                         {"bias_hides_some", BiasKind::kSomeHidden},
                                         {"bias_hides_rows", BiasKind::kRowsHidden}}) {
            c.bias = kind;
            with(what, c);
        }
        c.bias = BiasKind::kSomeHidden;
        c.bias_axes = 8;
        c.bias_poisoned = true;
        with("bias_hides_nan", c);
        c = plain;
        for (const auto &[what, kind] : {std::pair<const char *, MaskBytes>{"allowed", MaskBytes::kRandom},
                                         {"allowed_nothing", MaskBytes::kNothing},
                                         {"allowed_late_keys", MaskBytes::kLeadingHidden}}) {
            c.allowed = kind;
            with(what, c);
        }
        c.allowed = MaskBytes::kRandom;
        c.allowed_axes = 12;
        with("allowed_of_rows", c);
        c = plain;
        c.alibi = 2, c.len_k = 516;
        with("alibi", c);
        c.len_q = 2048, c.len_k = 64;  // Every key far from most rows' diagonals.
        with("alibi_far", c);
        c = plain;
        c.softcap = 50;
        with("softcap", c);
        c = plain;
        c.key_lengths = true;
        c.batch = 3;
        c.alibi = 2;
        with("alibi_key_lengths", c);
    }
    for (const auto &[name, pattern] :
         {std::pair{"x36", P::kTimes36}, std::pair{"huge_late_key", P::kHugeLateKey}, std::pair{"rising", P::kRising},
          std::pair{"far_below", P::kFarBelow}, std::pair{"nan_in_query", P::kNanInQuery}}) {
        C c = plain;
        c.pattern = pattern;
        add_each_operand(add, alone, std::string("_") + name, c);
        c.softcap = 1000;
        add(alone + "softcap_1000_" + name, c);
        c.softcap = 20;
        add(alone + "softcap_20_" + name, c);
    }
}

// The same of 16-bit numbers, for kernels on tensor cores, which have 64 or 128 keys a tile.
void add_half_singles(AttentionAdder add, std::int64_t dim) {
    C plain = attention_of(140, 196, dim);
    plain.batch = plain.heads_q = plain.heads_kv = 1;
    if (dim == 192) plain.head_dim_v = 128;
    const std::string alone = "alone_d" + std::to_string(dim) + "_";
    for (const std::int32_t mask : {ATTILE_MASK_NONE, ATTILE_MASK_CAUSAL_BOTTOM_RIGHT}) {
        const auto with = [&](const char *what, C c) {
            c.mask = mask;
            add(alone + what + "_mask_" + std::to_string(mask), c);
        };
        C c = plain;
        for (const auto &[what, kind] : {std::pair<const char *, BiasKind>{"bias", BiasKind::kNormal},
                                         {"bias_hides_some", BiasKind::kSomeHidden},
                                         {"bias_hides_rows", BiasKind::kRowsHidden}}) {
            c.bias = kind;
            with(what, c);
        }
        c = plain;
        c.len_k = dim > 128 ? 200 : 400;
        for (const auto &[what, kind] : {std::pair<const char *, MaskBytes>{"allowed", MaskBytes::kRandom},
                                         {"allowed_nothing", MaskBytes::kNothing},
                                         {"allowed_late_keys", MaskBytes::kLeadingHidden}}) {
            c.allowed = kind;
            with(what, c);
        }
        if (dim > 128) continue;
        c = plain;
        c.heads_q = c.heads_kv = 3;  // A slope each.
        c.alibi = 2, c.len_k = 516;
        with("alibi", c);
        c.scale = 0x1p-16;  // Slopes that float16 does not hold in units of products.
        with("alibi_small_scale", c);
        c.scale = 8;
        with("alibi_large_scale", c);
        c.scale = 0;
        c.len_q = 516, c.len_k = 140;
        with("alibi_far", c);
    }
    for (const auto &[what, pattern] : {std::pair{"_x36", P::kTimes36}, std::pair{"_rising", P::kRising}}) {
        C c = plain;
        c.pattern = pattern;
        add_each_operand(add, alone, what, c);
    }
}

// What is done to scores of a few rows, which a tile of their own holds, of some warps or of one; over few keys and over splits of many.
void add_few_rows(AttentionAdder add, std::int64_t dim) {
    struct Rows {
        std::int64_t rows, heads_q, heads_kv, keys;
    };
    for (const Rows &few : {Rows{1, 2, 2, 300}, Rows{3, 14, 2, 300}, Rows{30, 2, 1, 1100}}) {
        C plain = attention_of(few.rows, few.keys, dim);
        plain.batch = few.rows == 1 ? 2 : 1;
        plain.heads_q = few.heads_q, plain.heads_kv = few.heads_kv;
        plain.mask = few.rows > 1 ? ATTILE_MASK_CAUSAL_BOTTOM_RIGHT : ATTILE_MASK_NONE;
        const std::string name = "few_rows_" + std::to_string(few.rows) + "_d" + std::to_string(dim) + "_";
        const auto with = [&](const char *what, const auto &change) {
            C c = plain;
            change(c);
            add(name + what, c);
        };
        with("bias", [](C &c) { c.bias = BiasKind::kNormal; });
        with("bias_hides_some", [](C &c) { c.bias = BiasKind::kSomeHidden; });
        with("bias_of_keys", [](C &c) { c.bias = BiasKind::kNormal, c.bias_axes = 8; });
        with("bias_lowest", [](C &c) { c.bias = BiasKind::kLowest; });
        with("allowed", [](C &c) { c.allowed = MaskBytes::kRandom; });
        with("allowed_nothing", [](C &c) { c.allowed = MaskBytes::kNothing; });
        with("allowed_late_keys", [](C &c) { c.allowed = MaskBytes::kLeadingHidden, c.allowed_axes = 12; });
        with("alibi", [](C &c) { c.alibi = 2; });
        with("softcap", [](C &c) { c.softcap = 20; });
        with("softcap_x36", [](C &c) { c.softcap = 20, c.pattern = P::kTimes36; });
        with("negative_scale", [](C &c) { c.scale = -0.1; });
        with("bias_x36", [](C &c) { c.bias = BiasKind::kNormal, c.pattern = P::kTimes36; });
        with("bias_rising", [](C &c) { c.bias = BiasKind::kNormal, c.pattern = P::kRising; });
        with("bias_huge_late_key", [](C &c) { c.bias = BiasKind::kNormal, c.pattern = P::kHugeLateKey; });
        with("allowed_nan", [](C &c) { c.allowed = MaskBytes::kRandom, c.pattern = P::kNanInQuery; });
        with("everything", [](C &c) {
            c.bias = BiasKind::kNormal, c.allowed = MaskBytes::kRandom, c.alibi = 1, c.softcap = 30, c.sinks = true, c.key_lengths = true;
        });
        with("paged_bias", [](C &c) { c.bias = BiasKind::kNormal, c.page_size = 16; });
        with("window_allowed", [](C &c) {
            c.allowed = MaskBytes::kRandom, c.mask = ATTILE_MASK_WINDOW_BOTTOM_RIGHT, c.window_left = 200, c.window_right = 0;
        });
    }
}
// Heads of a group, all rows of one tile, that do not divide its rows; a tile of more rows than few.
void add_odd_groups(AttentionAdder add, std::int64_t dim) {
    struct Rows {
        std::int64_t rows, heads_q, heads_kv, keys;
    };
    for (const Rows &odd : {Rows{1, 40, 1, 300}, Rows{4, 10, 2, 700}, Rows{17, 14, 2, 200}}) {
        C c = attention_of(odd.rows, odd.keys, dim);
        c.heads_q = odd.heads_q, c.heads_kv = odd.heads_kv;
        c.mask = odd.rows > 1 ? ATTILE_MASK_CAUSAL_BOTTOM_RIGHT : ATTILE_MASK_NONE;
        const std::string name =
            "odd_group_" + std::to_string(odd.heads_q / odd.heads_kv) + "_rows_" + std::to_string(odd.rows) + "_d" + std::to_string(dim);
        add(name, c);
        c.batch = 1;
        C paged = c;
        paged.page_size = 16;
        add(name + "_paged", paged);
        C tree = c;
        tree.tree_keys = odd.rows;
        add(name + "_tree", tree);
        C sinks = c;
        sinks.sinks = true, sinks.key_lengths = true, sinks.allowed = MaskBytes::kRandom, sinks.allowed_axes = 12;
        add(name + "_sinks_lengths_allowed_of_rows", sinks);
        C bias = c;
        bias.bias = BiasKind::kNormal;
        add(name + "_bias", bias);
        bias.bias_axes = 9;
        add(name + "_bias_of_entries", bias);
        C packed = c;
        packed.packed_q = packed.packed_k = true, packed.batch = 3;
        add(name + "_packed", packed);
    }
}
// Windows of which a tile of rows sees a few key tiles of many.
void add_narrow_windows(AttentionAdder add, std::int64_t dim) {
    for (const std::int64_t rows : {9, 150}) {
        for (const std::int64_t left : {40, 900}) {
            C c = attention_of(rows, 2000, dim);
            c.batch = 1, c.heads_q = 2, c.heads_kv = 1;
            c.mask = ATTILE_MASK_WINDOW_BOTTOM_RIGHT;
            c.window_left = left, c.window_right = 0;
            add("window_of_" + std::to_string(left) + "_rows_" + std::to_string(rows) + "_d" + std::to_string(dim), c);
            c.bias = BiasKind::kNormal;
            add("window_of_" + std::to_string(left) + "_rows_" + std::to_string(rows) + "_d" + std::to_string(dim) + "_bias", c);
        }
    }
}

}  // namespace

void add_single_modifier_cases(AttentionAdder add, Tier tier) {
    const TypePair types = add.types();
    const bool is_half = types.in == types.out && (types.in == ATTILE_F16 || types.in == ATTILE_BF16);
    if (is_half && (tier == Tier::kFull || types.in == ATTILE_BF16)) {
        for (const std::int64_t dim : {64, 128}) {
            add_few_rows(add, dim);
            add_odd_groups(add, dim);
        }
        for (const std::int64_t dim : {64, 256}) add_narrow_windows(add, dim);
        for (const std::int64_t dim : {192, 256}) add_half_singles(add, dim);
    }
    for (const std::int64_t dim : {64, 128}) {
        if (types.in == ATTILE_F32) add_single_modifiers(add, dim);
        if (is_half) add_half_singles(add, dim);
    }
}

}  // namespace attile::test
