// SPDX-License-Identifier: Apache-2.0
// What happens to an illegal argument: the process's own handler is called, as by every BLAS.
#ifndef ATTILE_BLAS_ILLEGAL_H
#define ATTILE_BLAS_ILLEGAL_H

#include <cstdint>

namespace attile::blas {

// The position of an argument in the Fortran interface; 0: none.
inline constexpr int kTransa = 1, kTransb = 2, kM = 3, kN = 4, kK = 5, kLda = 8, kLdb = 10, kLdc = 13;

// Calls xerbla_, or xerbla_64_ for 64-bit integers, with a name of six characters and the position. Returns if that does.
void report_fortran(const char *name, int position, int32_t);
void report_fortran(const char *name, int position, int64_t);

// Calls cblas_xerbla, or cblas_xerbla_64. `position` is CBLAS's in the column-major product that a row-major one is made into.
void report_cblas(const char *name, int position, bool row_major, int32_t);
void report_cblas(const char *name, int position, bool row_major, int64_t);

}  // namespace attile::blas

#endif
