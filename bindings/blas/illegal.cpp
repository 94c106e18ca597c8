// SPDX-License-Identifier: Apache-2.0
// Which handler is called. Weak references find the program's own, else that of the BLAS that it is linked to, else none. This library
// exports no handler: where it is preloaded, that would replace the one of the program's BLAS for all other routines, too.
#include "illegal.h"

#include <cstddef>
#include <cstdio>

extern "C" {
[[gnu::weak, gnu::visibility("default")]] void xerbla_(const char *name, const int32_t *position, size_t length);
[[gnu::weak, gnu::visibility("default")]] void xerbla_64_(const char *name, const int64_t *position, size_t length);
[[gnu::weak, gnu::visibility("default")]] void cblas_xerbla(int32_t position, const char *name, const char *format, ...);
[[gnu::weak, gnu::visibility("default")]] void cblas_xerbla_64(int64_t position, const char *name, const char *format, ...);
// A variable of netlib's CBLAS and of its tests, see below.
[[gnu::weak, gnu::visibility("default")]] extern int RowMajorStrg;
}

namespace attile::blas {
namespace {

// Where the process has no handler. As OpenBLAS's it returns: C stays as it was.
void say(const char *name, int position) {
    std::fprintf(stderr, " ** On entry to %s parameter number %d had an illegal value\n", name, position);
}

// In netlib's CBLAS, too, a row-major product is a column-major one with A and B exchanged. Its handler is told the position there, and
// puts M and N, lda and ldb back in order if RowMajorStrg is set. Handlers without that variable are told the position in the call.
int in_row_major_call(int position) {
    switch (position) {
        case 1 + kM:
            return 1 + kN;
        case 1 + kN:
            return 1 + kM;
        case 1 + kLda:
            return 1 + kLdb;
        case 1 + kLdb:
            return 1 + kLda;
        default:
            return position;
    }
}

template <typename Integer>
void call_cblas(void (*handler)(Integer, const char *, const char *, ...), const char *name, int position, bool row_major) {
    int *const netlibs_order = &RowMajorStrg;
    if (netlibs_order != nullptr && handler != nullptr) {
        *netlibs_order = row_major;
        handler(position, name, "");
        *netlibs_order = 0;
        return;
    }
    if (row_major) position = in_row_major_call(position);
    if (handler != nullptr) {
        handler(position, name, "");
    } else {
        say(name, position);
    }
}

template <typename Integer>
void call_fortran(void (*handler)(const char *, const Integer *, size_t), const char *name, Integer position) {
    constexpr size_t kLength = 6;
    if (handler == nullptr) {
        say(name, static_cast<int>(position));
    } else {
        handler(name, &position, kLength);
    }
}

}  // namespace

void report_fortran(const char *name, int position, int32_t) { call_fortran<int32_t>(xerbla_, name, position); }
void report_fortran(const char *name, int position, int64_t) { call_fortran<int64_t>(xerbla_64_, name, position); }

void report_cblas(const char *name, int position, bool row_major, int32_t) { call_cblas<int32_t>(cblas_xerbla, name, position, row_major); }
void report_cblas(const char *name, int position, bool row_major, int64_t) {
    call_cblas<int64_t>(cblas_xerbla_64, name, position, row_major);
}

}  // namespace attile::blas
