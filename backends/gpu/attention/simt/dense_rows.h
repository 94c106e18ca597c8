// SPDX-License-Identifier: Apache-2.0
// Operands of attention as its products take them: where they lie, or in a dense copy of a slice's rows. Rows of packed sequences begin
// where the device alone knows, and so do pages; numbers past an entry's keys may be NaN, which a probability of 0 must not meet; and
// products take float32 or float64 alone.
#pragma once

#include <initializer_list>

#include "attention/simt/head_cut.h"
#include "attention/simt/products.h"

namespace attile::gpu::simt {

// Which operands are copied: those of query rows, K, V.
struct DenseOperands {
    bool rows, keys, values;
};

// Rows of a slice of an operand with query heads; the keys that they see of one with heads of K and V. `copy` may be null where a plan
// asks.
HeadMatrix rows_matrix(const attile_operand &x, const attile_attention_problem &p, const SlicePlace &at, int64_t cols, bool is_copied,
                       const void *copy);
HeadMatrix keys_matrix(const attile_operand &x, const attile_attention_problem &p, const SlicePlace &at, int64_t cols, bool is_copied,
                       const void *copy);
HeadMatrix score_matrix(const SlicePlace &at, const void *scores);
HeadMatrix transposed(HeadMatrix matrix);
HeadMatrix of_member(const attile_attention_problem &p, HeadMatrix matrix, int64_t member);  // Counted from the slice's first.

// A product of a slice, of all its heads, without its matrices.
HeadProduct head_product(const attile_attention_problem &p, const SlicePlace &at);

// Why the problem is left to the general kernels; null: it is not. `operands` are those that products take or give.
const char *why_no_products(const attile_attention_problem &p, std::initializer_list<const attile_operand *> operands);

// Is any of them of another type than products take?
bool are_converted(const attile_attention_problem &p, std::initializer_list<const attile_operand *> operands);

// The problem in the kernels' words.
AttentionParams wide_params(const attile_attention_problem &p);

// The way of a call's rows to dense copies and back.
struct DenseRows {
    Device &device;
    const AttentionParams &params;
    bool is_f64;  // Copies are.
    Stream stream;

    // Copies rows of an operand, or stores them where the operand is. Of keys: those of all the slice's entries and heads.
    int32_t copy(const SlicePlace &at, const AttentionOperand &operand, int64_t cols, bool of_keys, void *to) const;
    int32_t store(const SlicePlace &at, const AttentionOperand &operand, int64_t cols, bool of_keys, void *from) const;
    // Stores rows of o, or leaves them where they are, divided.
    int32_t divide(const SlicePlace &at, const AttentionOperand &operand, int64_t cols, void *from, const void *divisors) const;
};

// Does a block take a row of so many scores, or a lane group?
inline bool takes_blocks(int64_t keys) { return keys > 1024; }
inline uint32_t score_blocks(const HeadSlice &slice) {
    constexpr uint32_t kGroups = kWideThreads / 32;
    return takes_blocks(slice.keys) ? slice.total : (slice.total + kGroups - 1) / kGroups;
}

// What a query says at the end of a general kernel's plan, if anything.
void say_why_no_products(const Declined &why, attile_support &support);

// What a query says of slices, of the kernel between their products, and of two products' kernels.
int32_t describe_slices(Device &device, const void *kernel, const attile_attention_problem &p, const HeadCut &cut, const char *first,
                        const char *second, attile_support &support);

}  // namespace attile::gpu::simt
