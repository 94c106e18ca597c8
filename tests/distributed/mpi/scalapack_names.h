// SPDX-License-Identifier: Apache-2.0
// Functions of ScaLAPACK and BLACS that tests compare with. Their library has no header.
#pragma once

extern "C" {
void blacs_get_(const int *context, const int *what, int *value);
void blacs_gridinit_(int *context, const char *order, const int *rows, const int *columns);
void blacs_gridinfo_(const int *context, int *rows, int *columns, int *row, int *column);
void blacs_gridexit_(const int *context);
int numroc_(const int *extent, const int *block, const int *coordinate, const int *source, const int *ranks);
void pdgemm_(const char *transa, const char *transb, const int *m, const int *n, const int *k, const double *alpha, const double *a,
             const int *ia, const int *ja, const int *desca, const double *b, const int *ib, const int *jb, const int *descb,
             const double *beta, double *c, const int *ic, const int *jc, const int *descc);
void psgemm_(const char *transa, const char *transb, const int *m, const int *n, const int *k, const float *alpha, const float *a,
             const int *ia, const int *ja, const int *desca, const float *b, const int *ib, const int *jb, const int *descb,
             const float *beta, float *c, const int *ic, const int *jc, const int *descc);
}
