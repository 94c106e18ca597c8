// SPDX-License-Identifier: Apache-2.0
// What the files that list cases of attention share: how a case gets its types and its id.
#pragma once

#include <string>
#include <vector>

#include "case_text.h"
#include "cases.h"
#include "cases_attention.h"

namespace attile::test {

class AttentionAdder {
  public:
    AttentionAdder(std::vector<Case> &list, TypePair types) : list_(list), types_(types) {}
    TypePair types() const { return types_; }
    void operator()(const std::string &name, AttentionCase c) {
        c.dtype = types_.in;
        c.out_dtype = types_.out;
        c.bias_dtype = types_.in;
        list_.push_back({"attention." + name + "." + pair_name(types_), c});
    }

  private:
    std::vector<Case> &list_;
    TypePair types_;
};

inline AttentionCase attention_of(std::int64_t len_q, std::int64_t len_k, std::int64_t head_dim) {
    AttentionCase c;
    c.len_q = len_q;
    c.len_k = len_k;
    c.head_dim = c.head_dim_v = head_dim;
    return c;
}

/// Extents of 0 inside a head, scores of any magnitude, sums over very many keys.
void add_extreme_attention_cases(AttentionAdder add);

/// Strides of what has one number a head or an entry, sequences cut short, heads wider than kernels are made for, batches of many.
void add_operand_attention_cases(AttentionAdder add);

/// Rows in 16 bits that TMA cannot reach, and groups of heads that do not divide a tile's rows.
void add_unreached_attention_cases(AttentionAdder add, Tier tier);

/// Heads in 16 bits of more than 256 columns.
void add_wide_attention_cases(AttentionAdder add, Tier tier);

/// Where an entry's keys and its diagonal begin, and rows that are packed while keys are not.
void add_diagonal_attention_cases(AttentionAdder add, Tier tier);

/// Masks of blocks and of trees.
void add_sparse_attention_cases(AttentionAdder add, Tier tier);

/// Keys and values of 8 bits, and of other types than q.
void append_cached_attention_cases(std::vector<Case> &list, Tier tier);

/// What is rewritten in slices where memory is small.
void append_sliced_attention_cases(std::vector<Case> &list);

/// Results of 8 bits.
void append_narrow_attention(std::vector<Case> &list);

/// One thing done to scores, at the widths that kernels may have ways of their own for.
void add_single_modifier_cases(AttentionAdder add, Tier tier);

}  // namespace attile::test
