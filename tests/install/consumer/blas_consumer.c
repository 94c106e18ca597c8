/* SPDX-License-Identifier: Apache-2.0
 * A program of somebody else's that knows BLAS alone. */
#include <stdio.h>

void cblas_dgemm(int order, int transa, int transb, int m, int n, int k, double alpha, const double *a, int lda, const double *b, int ldb,
                 double beta, double *c, int ldc);

int main(void) {
    const double a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {1, 0, 0, 1, 1, 1}, right[4] = {4, 5, 10, 11};
    double c[4] = {0, 0, 0, 0};
    cblas_dgemm(101, 111, 111, 2, 2, 3, 1, a, 3, b, 2, 0, c, 2);
    for (int i = 0; i < 4; ++i)
        if (c[i] != right[i]) return fprintf(stderr, "element %d is %g, not %g\n", i, c[i], right[i]), 1;
    return 0;
}
