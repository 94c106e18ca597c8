// SPDX-License-Identifier: Apache-2.0
// The short way of everyday products to their problem: for the smallest of them the general one would take as long as the product.
//
// It takes what a few comparisons show to be right, and says no to all else; the general way then finds out what is wrong with it, if
// anything is.
#ifndef ATTILE_CORE_GEMM_PLAIN_H
#define ATTILE_CORE_GEMM_PLAIN_H

#include <attile/attile_backend.h>

#include <cstddef>
#include <cstdint>

#include "message.h"
#include "tensor.h"

namespace attile::core {

// The bytes from an operand's first element to its end.
struct PlainSpan {
    uintptr_t begin, end;
    bool meets(const PlainSpan &other) const { return begin < other.end && other.begin < end; }
};

// An operand whose last axis is the operand's: no extent is 0, no stride negative, and nothing is near overflow.
inline bool plain_operand(const void *data, int32_t dtype, int32_t rank, const int64_t *shape, const int64_t *stride,
                          attile_operand *operand, PlainSpan *span) {
    constexpr int64_t kMostExtent = int64_t{1} << 24, kMostStride = int64_t{1} << 32;
    *operand = attile_operand{const_cast<void *>(data), dtype, 0, {0, 0, 0, 0}};
    int64_t last = 0;
    for (int32_t i = 0; i < rank; ++i) {
        if (shape[i] < 1 || shape[i] > kMostExtent || stride[i] < 0 || stride[i] > kMostStride) return false;
        last += (shape[i] - 1) * stride[i];
        operand->stride[4 - rank + i] = shape[i] == 1 ? 0 : stride[i];
    }
    const uintptr_t bytes = static_cast<uintptr_t>(element_bytes(dtype));
    span->begin = reinterpret_cast<uintptr_t>(data);
    span->end = span->begin + static_cast<uintptr_t>(last + 1) * bytes;
    return data != nullptr && (span->begin & (bytes - 1)) == 0 && span->end > span->begin;
}

// Whether no two elements of an output are one: rows or columns together, every other axis stepping over what lies within it.
inline bool plain_output(int32_t rank, const int64_t *shape, const int64_t *stride) {
    const int64_t m = shape[rank - 2], n = shape[rank - 1], row = stride[rank - 2], column = stride[rank - 1];
    const bool by_rows = (column == 1 || n == 1) && (m == 1 || row >= n), by_columns = (row == 1 || m == 1) && (n == 1 || column >= m);
    if (!by_rows && !by_columns) return false;
    int64_t reach = (m - 1) * row + (n - 1) * column;
    for (int32_t i = rank - 3; i >= 0; --i) {
        if (shape[i] == 1) continue;
        if (stride[i] <= reach) return false;
        reach += (shape[i] - 1) * stride[i];
    }
    return true;
}

inline bool plain_factors(int32_t dtype, double alpha, double beta) {
    return is_finite_in(dtype, alpha) && !is_zero_in(dtype, alpha) && is_finite_in(dtype, beta) &&
           (beta == 0.0 || !is_zero_in(dtype, beta));
}

// Written field by field, as all here is: compilers make one instruction ("rep stos") of clearing much, which takes as long as half of this
// way.
inline void leave_out(attile_operand *operand) {
    operand->data = nullptr;
    operand->dtype = operand->reserved = 0;
    operand->stride[0] = operand->stride[1] = operand->stride[2] = operand->stride[3] = 0;
}

// All of a problem but the operands a, b and d, of one entry.
inline void finish_plain_problem(int32_t dtype, int64_t m, int64_t n, int64_t k, double alpha, double beta, attile_gemm_problem *problem) {
    problem->struct_size = sizeof *problem;
    problem->compute = dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32;
    problem->launch.stream = problem->launch.workspace = nullptr;
    problem->launch.workspace_bytes = 0;
    problem->launch.flags = problem->launch.reserved = 0;
    problem->batch[0] = problem->batch[1] = 1;
    problem->m = m;
    problem->n = n;
    problem->k = k;
    if (beta != 0.0) {
        problem->c = problem->d;
    } else {
        leave_out(&problem->c);
    }
    problem->alpha = alpha;
    problem->beta = beta;
    leave_out(&problem->bias);
    problem->activation = ATTILE_ACTIVATION_NONE;
    problem->reserved = 0;
    leave_out(&problem->a_scale);
    leave_out(&problem->b_scale);
    leave_out(&problem->b_zero);
    leave_out(&problem->d_scale);
    static_assert(offsetof(attile_gemm_problem, d_scale) + sizeof problem->d_scale == sizeof *problem, "a field behind is to be set, too");
    problem->a_group[0] = problem->a_group[1] = problem->b_group[0] = problem->b_group[1] = 0;
}

}  // namespace attile::core

#endif
