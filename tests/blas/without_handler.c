/* SPDX-License-Identifier: Apache-2.0
 * A program without xerbla, linked to libattile_blas alone: an illegal argument is said on standard error, C stays, and the program goes
 * on. */
#include <stdio.h>

#include "blas_names.h"

int main(void) {
    const double a[4] = {1, 2, 3, 4}, b[4] = {1, 0, 0, 1}, alpha = 1, beta = 0;
    double c[4] = {7, 7, 7, 7};
    const int32_t two = 2, one = 1;
    dgemm_("N", "N", &two, &two, &two, &alpha, a, &two, b, &two, &beta, c, &one, 1, 1);
    cblas_dgemm(101, 111, 111, 2, 2, 2, 1, a, 1, b, 2, 0, c, 2);
    for (int i = 0; i < 4; ++i)
        if (c[i] != 7) return fprintf(stderr, "C was written\n"), 1;
    dgemm_("N", "N", &two, &two, &two, &alpha, a, &two, b, &two, &beta, c, &two, 1, 1);
    for (int i = 0; i < 4; ++i)
        if (c[i] != a[i]) return fprintf(stderr, "the product is wrong\n"), 1;
    return 0;
}
