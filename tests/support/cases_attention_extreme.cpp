// SPDX-License-Identifier: Apache-2.0
// Cases of attention at the ends of what numbers and extents may be.
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

}  // namespace

void add_extreme_attention_cases(AttentionAdder add, Tier /*tier*/) { add_empty_heads(add); }

}  // namespace attile::test
