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
        c.len_k = 400;
        for (const auto &[what, kind] : {std::pair<const char *, MaskBytes>{"allowed", MaskBytes::kRandom},
                                         {"allowed_nothing", MaskBytes::kNothing},
                                         {"allowed_late_keys", MaskBytes::kLeadingHidden}}) {
            c.allowed = kind;
            with(what, c);
        }
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

}  // namespace

void add_single_modifier_cases(AttentionAdder add) {
    const TypePair types = add.types();
    for (const std::int64_t dim : {64, 128}) {
        if (types.in == ATTILE_F32) add_single_modifiers(add, dim);
        if (types.in == types.out && (types.in == ATTILE_F16 || types.in == ATTILE_BF16)) add_half_singles(add, dim);
    }
}

}  // namespace attile::test
