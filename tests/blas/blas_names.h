/* SPDX-License-Identifier: Apache-2.0
 * What programs declare of BLAS. */
#ifndef ATTILE_TESTS_BLAS_NAMES_H
#define ATTILE_TESTS_BLAS_NAMES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ATTILE_BLAS_OF(type, integer, fortran, cblas)                                                                                     \
    void fortran(const char *transa, const char *transb, const integer *m, const integer *n, const integer *k, const type *alpha,         \
                 const type *a, const integer *lda, const type *b, const integer *ldb, const type *beta, type *c, const integer *ldc,     \
                 size_t transa_length, size_t transb_length);                                                                             \
    void cblas(int order, int transa, int transb, integer m, integer n, integer k, type alpha, const type *a, integer lda, const type *b, \
               integer ldb, type beta, type *c, integer ldc);
ATTILE_BLAS_OF(float, int32_t, sgemm_, cblas_sgemm)
ATTILE_BLAS_OF(double, int32_t, dgemm_, cblas_dgemm)
ATTILE_BLAS_OF(float, int64_t, sgemm_64_, cblas_sgemm_64)
ATTILE_BLAS_OF(double, int64_t, dgemm_64_, cblas_dgemm_64)
ATTILE_BLAS_OF(float, int32_t, scipy_sgemm_, scipy_cblas_sgemm)
ATTILE_BLAS_OF(double, int32_t, scipy_dgemm_, scipy_cblas_dgemm)
ATTILE_BLAS_OF(float, int64_t, scipy_sgemm_64_, scipy_cblas_sgemm64_)
ATTILE_BLAS_OF(double, int64_t, scipy_dgemm_64_, scipy_cblas_dgemm64_)
/* OpenBLAS's name of cblas_sgemm_64. */
void cblas_sgemm64_(int order, int transa, int transb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                    const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
void cblas_dgemm64_(int order, int transa, int transb, int64_t m, int64_t n, int64_t k, double alpha, const double *a, int64_t lda,
                    const double *b, int64_t ldb, double beta, double *c, int64_t ldc);
#undef ATTILE_BLAS_OF

#ifdef __cplusplus
}
#endif

#endif
