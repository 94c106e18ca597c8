// SPDX-License-Identifier: Apache-2.0
// The kernels between the products of float64 attention, as the host sees them.
#pragma once

#include "attention/simt/head_slice.h"

namespace attile::gpu::simt {

// Scores of a slice, scale q.k, to weights relative to the row's largest where they lie, 0 of what is hidden; what o is to be divided by,
// [entry][head][member][row], 0 of a row that sees no key; and log-sum-exps.
struct ScoreParams {
    AttentionParams attention;
    HeadSlice slice;
    double *scores, *divisors;
};
using ScoreKernel = void (*)(ScoreParams);
// A block a row, or a lane group: which one takes the keys in which order, so the number of keys alone may choose.
ScoreKernel attention_f64_softmax_kernel(bool block_a_row);

// Rows of an operand to or from a dense copy of the slice's, [entry][head][member][row][cols]. Of keys the slice's rows are keys, and its
// members one. Rows that an entry does not have, keys on pages that do not exist among them, are 0 in the copy and left alone elsewhere.
struct DenseParams {
    AttentionParams attention;
    HeadSlice slice;
    AttentionOperand operand;
    double *copy;
    const double *divisors;
    int32_t cols, of_keys;
};
using DenseKernel = void (*)(DenseParams);
DenseKernel attention_f64_gather_kernel();
DenseKernel attention_f64_scatter_kernel();
DenseKernel attention_f64_divide_kernel();  // As scatter, each row divided by its divisor; without a copy, where the operand is.

// Which pairs of batch entry and head of K and V have NaN or infinity in V, [pair].
struct LookParams {
    AttentionParams attention;
    Divider keys, heads_kv;
    uint32_t pairs;
    uint32_t *irregular;
};
using LookKernel = void (*)(LookParams);
LookKernel attention_f64_look_kernel();

inline constexpr int32_t kWideThreads = 256;  // Of all of these.

// attention_any_f64 of irregular pairs alone.
struct IrregularParams {
    AttentionParams attention;
    const uint32_t *irregular;
};
using IrregularKernel = void (*)(IrregularParams);
IrregularKernel attention_any_irregular_f64();

}  // namespace attile::gpu::simt
