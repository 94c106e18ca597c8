// SPDX-License-Identifier: Apache-2.0
// The functions of BLAS: sgemm, dgemm from Fortran and C, with integers of 32 and 64 bits.
//
// Fortran compilers pass the lengths of transa and transb behind the last argument. They are not looked at, so callers from C may leave
// them out.
#include "illegal.h"
#include "product.h"

namespace attile::blas {
namespace {

// ATTILE_NO_TRANS ... of Fortran's letter; 0: none.
int32_t transposition(char letter) {
    switch (letter) {
        case 'N':
        case 'n':
            return ATTILE_NO_TRANS;
        case 'T':
        case 't':
            return ATTILE_TRANS;
        case 'C':
        case 'c':
            return ATTILE_CONJ_TRANS;
        default:
            return 0;
    }
}

// ATTILE_NO_TRANS ... are CBLAS's own numbers.
int32_t transposition(int32_t number) { return number >= ATTILE_NO_TRANS && number <= ATTILE_CONJ_TRANS ? number : 0; }

// The first illegal argument in the order in which BLAS looks at them.
template <typename T>
int first_illegal(const Product<T> &p) {
    const auto at_least = [](int64_t leading, int64_t rows) { return leading >= (rows > 1 ? rows : 1); };
    if (p.transa == 0) return kTransa;
    if (p.transb == 0) return kTransb;
    if (p.m < 0) return kM;
    if (p.n < 0) return kN;
    if (p.k < 0) return kK;
    if (!at_least(p.lda, p.transa == ATTILE_NO_TRANS ? p.m : p.k)) return kLda;
    if (!at_least(p.ldb, p.transb == ATTILE_NO_TRANS ? p.k : p.n)) return kLdb;
    if (!at_least(p.ldc, p.m)) return kLdc;
    return 0;
}

// Whether C stays as it is, which BLAS knows without looking at an array.
template <typename T>
bool nothing_to_do(const Product<T> &p) {
    return p.m == 0 || p.n == 0 || ((p.alpha == T(0) || p.k == 0) && p.beta == T(1));
}

template <typename T, typename Integer>
void fortran(const char *name, const char *transa, const char *transb, const Integer *m, const Integer *n, const Integer *k, const T *alpha,
             const T *a, const Integer *lda, const T *b, const Integer *ldb, const T *beta, T *c, const Integer *ldc) {
    const Product<T> product = {transposition(*transa), transposition(*transb), *m, *n, *k, *alpha, a, *lda, b, *ldb, *beta, c, *ldc};
    if (const int position = first_illegal(product)) return report_fortran(name, position, Integer());
    if (!nothing_to_do(product)) compute(product);
}

// A row-major product is the column-major one of the transposes: M and N, A and B change places. CBLAS's positions are one behind
// Fortran's.
template <typename T, typename Integer>
void cblas(const char *name, int32_t order, int32_t transa, int32_t transb, Integer m, Integer n, Integer k, T alpha, const T *a,
           Integer lda, const T *b, Integer ldb, T beta, T *c, Integer ldc) {
    const bool row_major = order == ATTILE_ROW_MAJOR;
    const int32_t op_a = transposition(transa), op_b = transposition(transb);
    if (!row_major && order != ATTILE_COL_MAJOR) return report_cblas(name, 1, false, Integer());
    if (op_a == 0) return report_cblas(name, 1 + kTransa, row_major, Integer());
    if (op_b == 0) return report_cblas(name, 1 + kTransb, row_major, Integer());
    const Product<T> product = row_major ? Product<T>{op_b, op_a, n, m, k, alpha, b, ldb, a, lda, beta, c, ldc}
                                         : Product<T>{op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc};
    if (const int position = first_illegal(product)) return report_cblas(name, 1 + position, row_major, Integer());
    if (!nothing_to_do(product)) compute(product);
}

}  // namespace
}  // namespace attile::blas

using namespace attile::blas;

extern "C" {

#pragma GCC visibility push(default)

void sgemm_(const char *transa, const char *transb, const int32_t *m, const int32_t *n, const int32_t *k, const float *alpha,
            const float *a, const int32_t *lda, const float *b, const int32_t *ldb, const float *beta, float *c, const int32_t *ldc) {
    fortran("SGEMM ", transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void sgemm_64_(const char *transa, const char *transb, const int64_t *m, const int64_t *n, const int64_t *k, const float *alpha,
               const float *a, const int64_t *lda, const float *b, const int64_t *ldb, const float *beta, float *c, const int64_t *ldc) {
    fortran("SGEMM ", transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void cblas_sgemm(int32_t order, int32_t transa, int32_t transb, int32_t m, int32_t n, int32_t k, float alpha, const float *a, int32_t lda,
                 const float *b, int32_t ldb, float beta, float *c, int32_t ldc) {
    cblas("cblas_sgemm", order, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void cblas_sgemm_64(int32_t order, int32_t transa, int32_t transb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                    int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
    cblas("cblas_sgemm", order, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void dgemm_(const char *transa, const char *transb, const int32_t *m, const int32_t *n, const int32_t *k, const double *alpha,
            const double *a, const int32_t *lda, const double *b, const int32_t *ldb, const double *beta, double *c, const int32_t *ldc) {
    fortran("DGEMM ", transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void dgemm_64_(const char *transa, const char *transb, const int64_t *m, const int64_t *n, const int64_t *k, const double *alpha,
               const double *a, const int64_t *lda, const double *b, const int64_t *ldb, const double *beta, double *c,
               const int64_t *ldc) {
    fortran("DGEMM ", transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void cblas_dgemm(int32_t order, int32_t transa, int32_t transb, int32_t m, int32_t n, int32_t k, double alpha, const double *a, int32_t lda,
                 const double *b, int32_t ldb, double beta, double *c, int32_t ldc) {
    cblas("cblas_dgemm", order, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void cblas_dgemm_64(int32_t order, int32_t transa, int32_t transb, int64_t m, int64_t n, int64_t k, double alpha, const double *a,
                    int64_t lda, const double *b, int64_t ldb, double beta, double *c, int64_t ldc) {
    cblas("cblas_dgemm", order, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

// Other names of the same: OpenBLAS's for 64 bits, and those of the OpenBLAS in the NumPy and SciPy of PyPI.
[[gnu::alias("cblas_sgemm_64")]] decltype(cblas_sgemm_64) cblas_sgemm64_;
[[gnu::alias("sgemm_")]] decltype(sgemm_) scipy_sgemm_;
[[gnu::alias("sgemm_64_")]] decltype(sgemm_64_) scipy_sgemm_64_;
[[gnu::alias("cblas_sgemm")]] decltype(cblas_sgemm) scipy_cblas_sgemm;
[[gnu::alias("cblas_sgemm_64")]] decltype(cblas_sgemm_64) scipy_cblas_sgemm64_;
[[gnu::alias("cblas_dgemm_64")]] decltype(cblas_dgemm_64) cblas_dgemm64_;
[[gnu::alias("dgemm_")]] decltype(dgemm_) scipy_dgemm_;
[[gnu::alias("dgemm_64_")]] decltype(dgemm_64_) scipy_dgemm_64_;
[[gnu::alias("cblas_dgemm")]] decltype(cblas_dgemm) scipy_cblas_dgemm;
[[gnu::alias("cblas_dgemm_64")]] decltype(cblas_dgemm_64) scipy_cblas_dgemm64_;

#pragma GCC visibility pop

}  // extern "C"
