// SPDX-License-Identifier: Apache-2.0
// Row-wise operations inside the backend: reduce, softmax, the merging of attention results and its gradients, as their fronts and kernels
// see them.
#ifndef ATTILE_CPU_ROWS_H
#define ATTILE_CPU_ROWS_H

#include <attile/attile_backend.h>

#include <cstdint>

#include "state.h"

namespace attile::cpu {

// `count` elements of one axis of an operand.
struct Strip {
    void *data;
    int32_t dtype;
    int64_t stride;
    int64_t count;
};

// Elements that a reduction takes at a time; the results of such pieces are combined in order, whoever computed them.
inline constexpr int64_t kReducePiece = 32768;

template <class T>
struct RowKernels {
    int lanes;
    // One result: of the elements of a strip.
    T (*reduce_strip)(int32_t op, const Strip &x);
    // `columns.count` results, each of `count` elements `step` apart.
    void (*reduce_columns)(int32_t op, const Strip &columns, int64_t step, int64_t count, T *results);
    // y = softmax(x) over each of `rows` strips x_step and y_step apart, in place if y is x. Some rows are taken together if they have up
    // to `elements` in all; their bits are the same.
    void (*softmax_rows)(const Strip &x, int64_t x_step, const Strip &y, int64_t y_step, int64_t rows, int64_t elements);
    // Softmax of columns.count columns, each over `count` elements x_step and y_step apart; at most 4 vectors of columns.
    void (*softmax_columns)(const Strip &x, int64_t x_step, const Strip &y, int64_t y_step, int64_t count);
    // y = sum over parts of weights[part] x[part]; parts of weight 0 because of an empty key range are left out (bit not set).
    void (*weighted_sum)(const Strip *x, const T *weights, const bool *used, int64_t parts, const Strip &y);
    // The elements of a strip as T, one after another.
    void (*widen)(const Strip &x, T *y);
    // y = weight dout; returns sum_d dout_d (x_d - o_d). A part that is not used gives zeros, and x is not read.
    T (*merge_gradient)(const T *dout, const T *o, const Strip &x, T weight, bool used, const Strip &y);
};

template <class T>
const RowKernels<T> &row_kernels(Target target);

}  // namespace attile::cpu

#endif  // ATTILE_CPU_ROWS_H
