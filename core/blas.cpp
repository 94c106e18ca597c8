// SPDX-License-Identifier: Apache-2.0
// attile_sgemm and attile_dgemm: BLAS arguments to the gemm front's.
#include <algorithm>

#include "gemm_plain.h"
#include "gemm_problem.h"
#include "log.h"

namespace attile::core {
namespace {

// A stored matrix: `rows` by `columns` before any transposition.
struct BlasMatrix {
    const char *name;  // "a"
    const void *data;
    int64_t leading;
    int32_t transposition;  // of the argument `trans`
};

// A rank 2 tensor of op(X), `rows` by `columns`; its storage is that of X in the given order.
int32_t describe(const Call &call, const BlasMatrix &matrix, int32_t dtype, int32_t order, int64_t rows, int64_t columns,
                 attile_tensor *tensor) {
    const bool transposed = matrix.transposition != ATTILE_NO_TRANS;
    // Row-major op(X) = X and column-major op(X) = X^T both have op(X)'s rows apart by the leading dimension.
    const bool rows_apart = (order == ATTILE_ROW_MAJOR) != transposed;
    const int64_t along = std::max<int64_t>(1, rows_apart ? columns : rows);
    if (matrix.leading < along) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: ld%s is %lld; expected at least %lld, the extent of %s along it", call.operation,
                    matrix.name, static_cast<long long>(matrix.leading), static_cast<long long>(along), matrix.name);
    }
    *tensor = {};
    tensor->data = const_cast<void *>(matrix.data);
    tensor->dtype = dtype;
    tensor->rank = 2;
    tensor->shape[0] = rows;
    tensor->shape[1] = columns;
    tensor->stride[0] = rows_apart ? matrix.leading : 1;
    tensor->stride[1] = rows_apart ? 1 : matrix.leading;
    return ATTILE_OK;
}

// The operand of a stored matrix.
[[gnu::always_inline]] inline bool plain_matrix(const BlasMatrix &matrix, int32_t dtype, bool rows_apart, int64_t rows, int64_t columns,
                                                attile_operand *operand, PlainSpan *span) {
    if (matrix.leading < (rows_apart ? columns : rows)) return false;
    const int64_t shape[2] = {rows, columns};
    const int64_t stride[2] = {rows_apart ? matrix.leading : 1, rows_apart ? 1 : matrix.leading};
    return plain_operand(matrix.data, dtype, 2, shape, stride, operand, span);
}

bool plain_problem(int32_t dtype, int32_t order, int64_t m, int64_t n, int64_t k, double alpha, const BlasMatrix &a, const BlasMatrix &b,
                   double beta, const BlasMatrix &c, attile_gemm_problem *problem) {
    const auto known = [](int32_t trans) { return trans >= ATTILE_NO_TRANS && trans <= ATTILE_CONJ_TRANS; };
    const bool row_major = order == ATTILE_ROW_MAJOR;
    if ((!row_major && order != ATTILE_COL_MAJOR) || !known(a.transposition) || !known(b.transposition)) return false;
    if (!plain_factors(dtype, alpha, beta) || log_level() >= ATTILE_LOG_DEBUG) return false;
    PlainSpan a_span, b_span, c_span;
    const bool a_rows = row_major == (a.transposition == ATTILE_NO_TRANS), b_rows = row_major == (b.transposition == ATTILE_NO_TRANS);
    if (!plain_matrix(a, dtype, a_rows, m, k, &problem->a, &a_span) || !plain_matrix(b, dtype, b_rows, k, n, &problem->b, &b_span) ||
        !plain_matrix(c, dtype, row_major, m, n, &problem->d, &c_span)) {
        return false;
    }
    if (c_span.meets(a_span) || c_span.meets(b_span)) return false;
    finish_plain_problem(dtype, m, n, k, alpha, beta, problem);
    return true;
}

// Any product, or what is wrong with it.
[[gnu::noinline]] int32_t any_gemm(const Call &call, Context *context, int32_t dtype, int32_t order, int64_t m, int64_t n, int64_t k,
                                   double alpha, const BlasMatrix &a, const BlasMatrix &b, double beta, const BlasMatrix &c) {
    if (order != ATTILE_ROW_MAJOR && order != ATTILE_COL_MAJOR) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: order is %d; expected ATTILE_ROW_MAJOR or ATTILE_COL_MAJOR", call.operation, order);
    }
    for (const BlasMatrix *matrix : {&a, &b}) {
        if (matrix->transposition >= ATTILE_NO_TRANS && matrix->transposition <= ATTILE_CONJ_TRANS) continue;
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: trans%s is %d; expected ATTILE_NO_TRANS, ATTILE_TRANS or ATTILE_CONJ_TRANS",
                    call.operation, matrix->name, matrix->transposition);
    }
    const struct {
        const char *name;
        int64_t value;
    } extents[] = {{"m", m}, {"n", n}, {"k", k}};
    for (const auto &extent : extents) {
        if (extent.value >= 0) continue;
        return fail(ATTILE_ERROR_INVALID_SHAPE, "%s: %s is %lld; expected 0 or more", call.operation, extent.name,
                    static_cast<long long>(extent.value));
    }
    attile_gemm_args args = {};
    ATTILE_TRY(describe(call, a, dtype, order, m, k, &args.a));
    ATTILE_TRY(describe(call, b, dtype, order, k, n, &args.b));
    ATTILE_TRY(describe(call, c, dtype, order, m, n, &args.d));
    args.c = args.d;
    args.alpha = alpha;
    args.beta = beta;
    args.flags = context->blas_flags;
    // As in BLAS, A and B may then be anything, also NULL: they become matrices without elements.
    if (alpha == 0.0) args.a.shape[1] = args.b.shape[0] = 0;
    GemmProblem gemm;
    ATTILE_TRY(normalise_gemm(call, args, "c", &gemm));
    ATTILE_TRY(check_version(call, context, context->interfaces.gemm, gemm.problem));
    return run_problem(call, context, context->interfaces.gemm, gemm.problem, gemm.problem.launch, gemm.nothing_to_do);
}

int32_t blas_gemm(const Call &call, Context *context, int32_t dtype, int32_t order, int64_t m, int64_t n, int64_t k, double alpha,
                  const BlasMatrix &a, const BlasMatrix &b, double beta, const BlasMatrix &c) {
    attile_gemm_problem problem;
    if (context->blas_flags == 0 && plain_problem(dtype, order, m, n, k, alpha, a, b, beta, c, &problem)) {
        return run_problem(call, context, context->interfaces.gemm, problem, problem.launch, false);
    }
    return any_gemm(call, context, dtype, order, m, n, k, alpha, a, b, beta, c);
}

}  // namespace
}  // namespace attile::core

using namespace attile::core;

extern "C" {

int32_t attile_sgemm(attile_context *handle, int32_t order, int32_t transa, int32_t transb, int64_t m, int64_t n, int64_t k, double alpha,
                     const float *a, int64_t lda, const float *b, int64_t ldb, double beta, float *c, int64_t ldc) {
    return on_context(handle, [&](Context *context) -> int32_t {
        return blas_gemm({"sgemm"}, context, ATTILE_F32, order, m, n, k, alpha, {"a", a, lda, transa}, {"b", b, ldb, transb}, beta,
                         {"c", c, ldc, ATTILE_NO_TRANS});
    });
}

int32_t attile_dgemm(attile_context *handle, int32_t order, int32_t transa, int32_t transb, int64_t m, int64_t n, int64_t k, double alpha,
                     const double *a, int64_t lda, const double *b, int64_t ldb, double beta, double *c, int64_t ldc) {
    return on_context(handle, [&](Context *context) -> int32_t {
        return blas_gemm({"dgemm"}, context, ATTILE_F64, order, m, n, k, alpha, {"a", a, lda, transa}, {"b", b, ldb, transb}, beta,
                         {"c", c, ldc, ATTILE_NO_TRANS});
    });
}

}  // extern "C"
