// SPDX-License-Identifier: Apache-2.0
// A product whose arguments are legal, and the call of the library that computes it.
#ifndef ATTILE_BLAS_PRODUCT_H
#define ATTILE_BLAS_PRODUCT_H

#include <attile/attile.h>

#include <cstdint>

namespace attile::blas {

// C = alpha op(A) op(B) + beta C, all of them column-major.
template <typename T>
struct Product {
    int32_t transa, transb;  // ATTILE_NO_TRANS, ATTILE_TRANS or ATTILE_CONJ_TRANS
    int64_t m, n, k;
    T alpha;
    const T *a;
    int64_t lda;
    const T *b;
    int64_t ldb;
    T beta;
    T *c;
    int64_t ldc;
};

// Computes it; C is complete on return. BLAS has no status, so a failure of the library ends the process with its sentence on standard
// error.
void compute(const Product<float> &product);
void compute(const Product<double> &product);

}  // namespace attile::blas

#endif
