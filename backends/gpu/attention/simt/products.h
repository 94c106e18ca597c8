// SPDX-License-Identifier: Apache-2.0
// The kernels between the products of attention, as the host sees them. Each is there for float32 and for float64, the type that scores,
// divisors and copies are of; operands are of any type.
#pragma once

#include "attention/simt/head_slice.h"

namespace attile::gpu::simt {

// Scores of a slice, scale q.k, to weights relative to the row's largest where they lie, 0 of what is hidden; what o is to be divided by,
// [entry][head][member][row], 0 of a row that sees no key; and log-sum-exps.
struct ScoreParams {
    AttentionParams attention;
    HeadSlice slice;
    void *scores, *divisors;
};
using ScoreKernel = void (*)(ScoreParams);
// A block a row, or a lane group: which one takes the keys in which order, so the number of keys alone may choose. sparse: there is a mask
// of blocks or of a tree.
ScoreKernel attention_products_softmax_kernel(bool is_f64, bool block_a_row, bool sparse);

// Rows of an operand to or from a dense copy of the slice's, [entry][head][member][row][cols]. Of keys the slice's rows are keys, and its
// members one. Rows that an entry does not have, keys on pages that do not exist among them, are 0 in the copy and left alone elsewhere.
struct DenseParams {
    AttentionParams attention;
    HeadSlice slice;
    AttentionOperand operand;
    void *copy;
    const void *divisors;
    int32_t cols, of_keys;
};
using DenseKernel = void (*)(DenseParams);
DenseKernel attention_products_gather_kernel(bool is_f64);
DenseKernel attention_products_scatter_kernel(bool is_f64);
DenseKernel attention_products_divide_kernel(
    bool is_f64);  // As scatter, each row divided by its divisor; without a copy, where the operand is.

// Which pairs of batch entry and head of K and V have NaN or infinity in V, [pair].
struct LookParams {
    AttentionParams attention;
    Divider keys, heads_kv;
    uint32_t pairs;
    uint32_t *irregular;
};
using LookKernel = void (*)(LookParams);
LookKernel attention_products_look_kernel(bool is_f64);

inline constexpr int32_t kWideThreads = 256;  // Of all of these.

// attention_any of irregular pairs alone.
struct IrregularParams {
    AttentionParams attention;
    const uint32_t *irregular;
};
using IrregularKernel = void (*)(IrregularParams);
IrregularKernel attention_any_irregular_kernel(bool is_f64);

}  // namespace attile::gpu::simt
