// SPDX-License-Identifier: Apache-2.0
// Cases of attention at the ends of what numbers and extents may be.
#include <cmath>

#include "cases_attention_list.h"

namespace attile::test {
namespace {

using C = AttentionCase;

// Few rows and many, few keys and more than one part of them.
void add_empty_heads(AttentionAdder add) {
    for (const auto &[q, k] : {std::pair<int, int>{1, 65}, {3, 300}, {35, 70}, {1, 2100}}) {
        const std::string lengths = "_len_" + std::to_string(q) + "_" + std::to_string(k);
        C c = attention_of(q, k, 8);
        c.head_dim = 0;
        add("head_dims_0_8" + lengths, c);
        c.bias = BiasKind::kSomeHidden;
        c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        add("head_dims_0_8_bias_causal" + lengths, c);
        c = attention_of(q, k, 8);
        c.head_dim_v = 0;
        add("head_dims_8_0" + lengths, c);
        c.head_dim = 0;
        add("head_dims_0_0" + lengths, c);
    }
}

// Few rows and many, few keys and more than one part of them; the rows alone too.
template <class F>
void in_shapes(AttentionAdder add, const std::string &name, F change) {
    for (const auto &[q, k] : {std::pair<int, int>{1, 65}, {3, 300}, {35, 70}, {1, 2100}}) {
        C c = attention_of(q, k, 16);
        change(c);
        add(name + "_len_" + std::to_string(q) + "_" + std::to_string(k), c);
        if (k != 300) continue;
        c.flags = ATTILE_FLAG_BATCH_INVARIANT;
        add(name + "_batch_invariant", c);
    }
}

// Scores up to the largest numbers there are, where scaling by log2 e overflows, and differences of any size.
void add_huge_scores(AttentionAdder add) {
    const bool f64 = add.types().in == ATTILE_F64;
    // In float64 the sizes of what is rounded, which are in double, must not overflow either.
    for (const int power : {33, f64 ? 400 : 100, f64 ? 900 : 126}) {
        in_shapes(add, "huge_scores_2e" + std::to_string(power), [power = power](C &c) {
            c.pattern = AttentionPattern::kExact;
            c.scale = std::ldexp(1.0, power);
        });
    }
    in_shapes(add, "huge_scores_5e9", [](C &c) { c.scale = 5e9; });
    in_shapes(add, "huge_bias_lowest", [](C &c) { c.bias = BiasKind::kLowest; });
    in_shapes(add, "huge_bias_lowest_of_keys", [](C &c) {
        c.bias = BiasKind::kLowest;
        c.bias_axes = 8;
    });
    // More than float32 holds; as much as float64 holds; so little that its inverse is infinite in float32.
    for (const auto &[name, cap] : {std::pair<const char *, double>{"1e39", 1e39}, {"1e300", 1e300}, {"1e30", 1e30}, {"1e-40", 1e-40}}) {
        in_shapes(add, std::string("huge_softcap_") + name, [cap = cap](C &c) { c.softcap = cap; });
    }
    in_shapes(add, "minus_infinity_scores", [](C &c) { c.pattern = AttentionPattern::kInfiniteKeys; });
    C c = attention_of(35, 70, 16);
    c.pattern = AttentionPattern::kInfiniteKeys;
    c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    add("minus_infinity_scores_causal", c);
}

// Sums over very many keys, of like weights and of one beside many small ones.
void add_long_sums(AttentionAdder add) {
    if (add.types().in != ATTILE_F32) return;
    for (const std::int64_t rows : {1, 9}) {
        C c = attention_of(rows, 32768, 32);
        c.batch = c.heads_q = c.heads_kv = 1;
        c.pattern = AttentionPattern::kUniform;
        add("long_sums_rows_" + std::to_string(rows), c);
        c = attention_of(rows, 131072, 8);
        c.batch = c.heads_q = c.heads_kv = 1;
        c.pattern = AttentionPattern::kOneAbove;
        c.scale = 1;
        add("long_sums_one_above_rows_" + std::to_string(rows), c);
    }
}

}  // namespace

void add_extreme_attention_cases(AttentionAdder add) {
    add_empty_heads(add);
    add_huge_scores(add);
    add_long_sums(add);
}

}  // namespace attile::test
