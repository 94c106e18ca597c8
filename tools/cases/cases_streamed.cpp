// SPDX-License-Identifier: Apache-2.0
// Cases of attention of few rows over keys and values of 8 or 4 bits.
#include "cases_cached.h"

namespace attile::test {
namespace {

using C = AttentionCase;

}  // namespace

// Kernels that stream keys for few rows on tensor cores: all that may happen to a score, rows shorter than a kernel's, pages, and splits.
void append_streamed_cases(const Adder &add) {
    const auto add_all = [&](const std::string &suffix, const C &plain) {
        C c = plain;
        c.alibi = 2;
        c.softcap = 20;
        c.bias = BiasKind::kSomeHidden;
        c.allowed = MaskBytes::kRandom;
        c.page_size = 16;
        c.key_starts = c.sinks = true;
        c.mask = ATTILE_MASK_WINDOW_BOTTOM_RIGHT;
        c.window_left = 250;
        add("everything" + suffix, c, 32);
        c = plain;
        c.bias = BiasKind::kLowest;
        add("lowest_bias" + suffix, c);
        c.bias = BiasKind::kRowsHidden;
        c.key_lengths = true;
        add("hidden_rows" + suffix, c, 0, 2);
    };
    for (const std::int64_t rows : {1, 5}) {
        for (const std::int64_t columns : {32, 64, 96, 128}) {
            const std::string suffix = "_" + std::to_string(rows) + "_rows_of_" + std::to_string(columns);
            C c = attention_of(rows, 333, columns);
            if (columns % 64 != 0) add("streamed" + suffix, c, columns == 96 && rows == 1 ? 32 : 0);
            add_all(suffix, c);
        }
        const std::string suffix = "_" + std::to_string(rows) + "_rows";
        C plain = attention_of(rows, 1100, 128);  // Splits.
        plain.batch = 1;
        C c = plain;
        c.alibi = 2;
        add("alibi" + suffix, c);
        c = plain;
        c.softcap = 20;
        add("softcap" + suffix, c);
        c = plain;
        c.bias = BiasKind::kNormal;
        add("bias" + suffix, c);
        c = plain;
        c.allowed = MaskBytes::kRandom;
        add("allowed" + suffix, c);
        c = plain;
        c.page_size = 6;
        c.batch = 2;
        add("pages" + suffix, c, 0, 2);
        c = plain;
        c.tree_keys = rows;
        c.key_lengths = true;
        c.batch = 2;
        add("tree" + suffix, c);
        c.causal_offset = true;
        c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
        add("offset_tree" + suffix, c);
    }
    // More rows, of pages, which are rewritten for kernels of 16 bits.
    C c = attention_of(70, 333, 64);
    c.page_size = 16;
    add("pages_70_rows", c, 32);
    c.key_lengths = true;
    c.packed_q = true;
    c.batch = 3;
    add("packed_pages_70_rows", c, 0, 6);
}

}  // namespace attile::test
