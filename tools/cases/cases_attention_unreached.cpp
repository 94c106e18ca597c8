// SPDX-License-Identifier: Apache-2.0
// Cases of attention in 16 bits whose rows do not lie at multiples of 16 bytes: kernels for tensor cores read copies of what TMA cannot
// reach, and write a copy of the output. Large enough that copies pay; and query heads of a group that do not divide a tile's rows.
#include "cases_attention_list.h"

namespace attile::test {
namespace {

using C = AttentionCase;

constexpr Layout kOdd = {.pad = 1};

void add_one_by_one(AttentionAdder add, const C &plain, const std::string &suffix) {
    for (const auto &[name, layout] : {std::pair{"q", &C::q_layout}, {"k", &C::k_layout}, {"v", &C::v_layout}, {"o", &C::o_layout}}) {
        C c = plain;
        c.*layout = {.pad = 3, .offset = 1};
        add(std::string("unreached_") + name + suffix, c);
    }
    C c = plain;
    c.q_layout = {.step = 2};
    c.k_layout = {.pad = 1, .broadcast = 2};
    c.v_layout = {.pad = 1, .broadcast = 1};
    c.o_layout = {.pad = 1, .step = 3};
    c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
    add("unreached_steps_and_broadcast" + suffix, c);
}

C all_odd(C c) {
    c.q_layout = c.k_layout = c.v_layout = c.o_layout = kOdd;
    return c;
}

void add_options(AttentionAdder add, const C &odd, const std::string &suffix) {
    add("unreached" + suffix, odd);
    for (const std::int32_t mask : {ATTILE_MASK_CAUSAL_BOTTOM_RIGHT, ATTILE_MASK_WINDOW_TOP_LEFT}) {
        C c = odd;
        c.mask = mask;
        c.window_left = mask == ATTILE_MASK_WINDOW_TOP_LEFT ? 40 : 0;
        c.sinks = true;
        add("unreached_sinks_mask_" + std::to_string(mask) + suffix, c);
    }
    C c = odd;
    c.key_lengths = true;
    c.alibi = 2;
    add("unreached_lengths_alibi" + suffix, c);
    c = odd;
    c.packed_k = c.packed_q = true;
    add("unreached_packed" + suffix, c);
    c.o_layout = {};
    add("unreached_packed_but_o" + suffix, c);
    c = odd;
    c.softcap = 1.5;
    c.lse = false;
    add("unreached_softcap" + suffix, c);
    c = odd;
    c.pattern = AttentionPattern::kInfiniteKeys;
    add("unreached_infinite_keys" + suffix, c);
    c = odd;
    c.page_size = 16;
    c.k_layout = c.v_layout = {};
    add("unreached_paged" + suffix, c);
}

// A bias or mask with an odd number of keys, of keys alone, of one head; and of kinds that other kernels read.
void add_scores(AttentionAdder add, const C &plain, const std::string &suffix) {
    for (const int axes : {15, 9, 12, 8}) {
        const std::string of = axes == 15 ? suffix : "_axes_" + std::to_string(axes) + suffix;
        C c = plain;
        c.bias = BiasKind::kSomeHidden;
        c.bias_axes = static_cast<std::uint8_t>(axes);
        c.bias_poisoned = true;
        add("unreached_bias" + of, c);
        c = plain;
        c.allowed = MaskBytes::kRandom;
        c.allowed_axes = static_cast<std::uint8_t>(axes);
        add("unreached_allowed" + of, c);
        c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        c.key_lengths = true;
        add("unreached_allowed_causal" + of, c);
    }
    C c = plain;
    c.bias = BiasKind::kNormal;
    c.bias_layout = {.pad = 3, .step = 2};
    c.sinks = true;
    add("unreached_bias_steps" + suffix, c);
    c = all_odd(plain);
    c.bias = BiasKind::kRowsHidden;
    add("unreached_all_and_bias" + suffix, c);
    c.bias = BiasKind::kNone;
    c.allowed = MaskBytes::kLeadingHidden;
    c.packed_q = c.packed_k = true;
    c.o_layout = {};
    add("unreached_all_and_allowed_packed" + suffix, c);
    c = plain;
    c.bias = BiasKind::kNormal;
    c.allowed = MaskBytes::kRandom;
    add("unreached_bias_and_allowed" + suffix, c);
}

// 6, 12 and 40 heads of a group: 2, 4 or 8 of them are rows of a tile.
void add_groups(AttentionAdder add, Tier tier) {
    for (const std::int64_t group : {6, 12, 40})
        for (const std::int64_t rows : {1, 3, 21}) {
            if (tier != Tier::kFull && (group == 6 || (group == 40) != (rows == 3))) continue;
            C plain = attention_of(rows, 301, 64);
            plain.batch = 1;
            plain.heads_q = 2 * group;
            const std::string suffix = std::to_string(group) + "_len_" + std::to_string(rows);
            add("group_of_" + suffix, plain);
            C c = plain;
            c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
            c.alibi = 1;
            c.sinks = true;
            add("group_alibi_of_" + suffix, c);
            c = plain;
            c.softcap = 1.5;
            c.key_lengths = true;
            add("group_softcap_of_" + suffix, c);
            c = plain;
            c.allowed = MaskBytes::kRandom;
            add("group_allowed_of_" + suffix, c);
            c = plain;
            c.bias = BiasKind::kNormal;
            c.mask = ATTILE_MASK_WINDOW_BOTTOM_RIGHT;
            c.window_left = 100;
            add("group_bias_of_" + suffix, c);
        }
}

}  // namespace

void add_unreached_attention_cases(AttentionAdder add, Tier tier) {
    if (add.types().in != ATTILE_F16 && add.types().in != ATTILE_BF16) return;
    const std::vector<std::int64_t> dims =
        tier == Tier::kFull ? std::vector<std::int64_t>{64, 36, 128, 250} : std::vector<std::int64_t>{64};
    for (const std::int64_t dim : dims) {
        const std::string suffix = dim == 64 ? "" : "_d" + std::to_string(dim);
        C plain = attention_of(67, 133, dim);
        add_one_by_one(add, plain, suffix);
        add_options(add, all_odd(plain), suffix);
        if (dim <= 128) add_scores(add, plain, suffix);
        C narrow = plain;
        narrow.head_dim_v = 21;
        add("unreached_narrow_v" + suffix, narrow);
        narrow.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
        add("unreached_all_narrow_v" + suffix, all_odd(narrow));
    }
    add_groups(add, tier);
}

}  // namespace attile::test
