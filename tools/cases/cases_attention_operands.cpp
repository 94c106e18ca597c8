// SPDX-License-Identifier: Apache-2.0
// Cases of attention whose operands lie, end or are cut in ways that most do not. Each is here for a fault that no other case finds.
#include "cases_attention_list.h"

namespace attile::test {
namespace {

using C = AttentionCase;

constexpr Layout kApart = {.pad = 1, .step = 3, .offset = 1};

// Slopes, sinks, lengths, offsets and pages that do not lie side by side. Few rows, and tiles of them.
void add_strided_numbers(AttentionAdder add) {
    for (const std::int64_t rows : {1, 35}) {
        const std::string suffix = "_len_" + std::to_string(rows);
        C plain = attention_of(rows, 70, 16);
        plain.batch = 5;
        plain.numbers_layout = kApart;
        C c = plain;
        c.sinks = true;
        add("strided_sinks" + suffix, c);
        c = plain;
        c.alibi = 1;
        add("strided_slopes" + suffix, c);
        c.alibi = 2;
        add("strided_slopes_of_batch" + suffix, c);
        c = plain;
        c.key_lengths = true;
        add("strided_key_lengths" + suffix, c);
        c.numbers_layout = {.reversed = 1};
        add("reversed_key_lengths" + suffix, c);
        c = plain;
        c.packed_q = c.packed_k = true;
        c.len_q = rows + 4;
        add("strided_offsets" + suffix, c);
        c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        c.key_lengths = c.sinks = true;
        c.alibi = 2;
        add("strided_packed_with_everything" + suffix, c);
        c = plain;
        c.page_size = 8;
        add("strided_pages" + suffix, c);
        c.sinks = true;
        c.alibi = 1;
        c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        add("strided_pages_with_everything" + suffix, c);
    }
}

// More keys than a block, whose pages are found anew for each.
void add_many_pages(AttentionAdder add) {
    for (const std::int64_t rows : {1, 35}) {
        C c = attention_of(rows, 301, 16);
        c.page_size = 16;
        add("many_pages_len_" + std::to_string(rows), c);
    }
}

// Rows beyond max_len are not written, keys beyond it not seen, and the corner is where it cuts.
void add_cut_sequences(AttentionAdder add) {
    for (const std::int32_t mask : {ATTILE_MASK_NONE, ATTILE_MASK_CAUSAL_TOP_LEFT, ATTILE_MASK_CAUSAL_BOTTOM_RIGHT})
        for (const std::int64_t rows : {12, 40}) {
            C c = attention_of(rows, 70, 16);
            c.batch = 5;
            c.packed_q = c.packed_k = true;
            c.max_len_cut = 9;
            c.mask = mask;
            add("cut_sequences_len_" + std::to_string(rows) + "_mask_" + std::to_string(mask), c);
        }
}

void add_wide_heads(AttentionAdder add) {
    for (const auto &[d, dv] : {std::pair<int, int>{257, 257}, {320, 16}, {16, 300}, {264, 520}})
        for (const std::int64_t rows : {2, 35}) {
            C c = attention_of(rows, 70, d);
            c.head_dim_v = dv;
            c.batch = 1;
            c.heads_q = 2;
            c.heads_kv = 1;
            c.sinks = true;
            c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
            add("head_dims_" + std::to_string(d) + "_" + std::to_string(dv) + "_len_" + std::to_string(rows), c);
        }
}

void add_many_entries(AttentionAdder add) {
    for (const std::int64_t rows : {1, 19}) {
        C c = attention_of(rows, 33, 16);
        c.batch = 11;
        add("batch_of_11_len_" + std::to_string(rows), c);
        c.bias = BiasKind::kNormal;
        c.alibi = 2;
        c.key_lengths = true;
        add("batch_of_11_with_everything_len_" + std::to_string(rows), c);
    }
}

void add_modifiers_together(AttentionAdder add) {
    for (const std::int64_t rows : {1, 33}) {
        C c = attention_of(rows, 65, 16);
        c.softcap = 1.5;
        c.bias = BiasKind::kNormal;
        add("softcap_and_bias_len_" + std::to_string(rows), c);
        c.alibi = 1;
        c.sinks = true;
        c.allowed = MaskBytes::kRandom;
        c.mask = ATTILE_MASK_WINDOW_BOTTOM_RIGHT;
        c.window_left = 20;
        c.window_right = 3;
        add("every_modifier_len_" + std::to_string(rows), c);
    }
}

}  // namespace

void add_operand_attention_cases(AttentionAdder add) {
    add_strided_numbers(add);
    add_many_pages(add);
    add_cut_sequences(add);
    add_wide_heads(add);
    add_many_entries(add);
    add_modifiers_together(add);
}

}  // namespace attile::test
