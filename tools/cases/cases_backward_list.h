// SPDX-License-Identifier: Apache-2.0
// What the files that list cases of attention's gradients share: how a case gets its types and its id.
#pragma once

#include <string>
#include <vector>

#include "case_text.h"
#include "cases.h"
#include "cases_attention.h"

namespace attile::test {

class BackwardAdder {
  public:
    BackwardAdder(std::vector<Case> &list, TypePair types) : list_(list), types_(types) {}
    void operator()(const std::string &name, const AttentionCase &forward, bool dbias = true) {
        BackwardCase c;
        c.dbias = dbias;
        put(name, forward, c);
    }
    TypePair types() const { return types_; }
    void with_dlse(const std::string &name, const AttentionCase &forward) {
        BackwardCase c;
        c.dlse = true;
        put(name, forward, c);
    }

  private:
    void put(const std::string &name, const AttentionCase &forward, BackwardCase c) {
        c.forward = forward;
        c.forward.dtype = c.forward.out_dtype = c.forward.bias_dtype = types_.in;
        c.dout_dtype = types_.in;
        c.grad_dtype = c.dbias_dtype = types_.out;
        list_.push_back({"attention_backward." + name + "." + pair_name(types_), c});
    }

    std::vector<Case> &list_;
    TypePair types_;
};

inline AttentionCase backward_of(std::int64_t len_q = 19, std::int64_t len_k = 23, std::int64_t head_dim = 16) {
    AttentionCase c;
    c.len_q = len_q;
    c.len_k = len_k;
    c.head_dim = c.head_dim_v = head_dim;
    return c;
}

/// Many blocks of keys that see few rows: kernels may keep several sums of dq, of which rows under a mask or of a short entry have fewer.
void add_few_row_backward_cases(BackwardAdder add, Tier tier, bool is_16_bit);

/// What is copied in slices where memory is small.
void add_sliced_backward_cases(BackwardAdder add);

/// As of the forward list; and gradients of lse.
void add_diagonal_backward_cases(BackwardAdder add, bool is_16_bit);

/// Masks of blocks and of trees.
void add_sparse_backward_cases(BackwardAdder add, bool is_16_bit);

/// A bias that batch entries and heads share, of several tiles: its gradient may have a kernel of its own, which parts of them may share.
void add_shared_bias_backward_cases(BackwardAdder add, Tier tier);

/// Packed sequences of more than 128 columns, in 16 bits: a tile may go past the end of a sequence, to rows of the next or of nobody.
void add_wide_packed_backward_cases(BackwardAdder add);

}  // namespace attile::test
