// SPDX-License-Identifier: Apache-2.0
// A call of BLAS as a struct, and every function that can make it.
#ifndef ATTILE_TESTS_BLAS_CALLS_H
#define ATTILE_TESTS_BLAS_CALLS_H

#include <cstdint>

#include "blas_names.h"

namespace attile_test {

inline constexpr int kRowMajor = 101, kColMajor = 102, kNoTrans = 111, kTrans = 112, kConjTrans = 113;

// A call in all its forms.
template <typename T>
struct Call {
    int order = kColMajor, transa = kNoTrans, transb = kNoTrans;
    int64_t m = 0, n = 0, k = 0;
    T alpha = 1;
    const T *a = nullptr;
    int64_t lda = 1;
    const T *b = nullptr;
    int64_t ldb = 1;
    T beta = 0;
    T *c = nullptr;
    int64_t ldc = 1;
};

inline char letter(int trans) {
    switch (trans) {
        case kNoTrans:
            return 'n';
        case kTrans:
            return 'T';
        case kConjTrans:
            return 'c';
        default:
            return static_cast<char>(trans);
    }
}

template <typename T, typename Integer, typename Function>
void call_fortran(Function function, const Call<T> &x) {
    const char transa = letter(x.transa), transb = letter(x.transb);
    const Integer m = static_cast<Integer>(x.m), n = static_cast<Integer>(x.n), k = static_cast<Integer>(x.k);
    const Integer lda = static_cast<Integer>(x.lda), ldb = static_cast<Integer>(x.ldb), ldc = static_cast<Integer>(x.ldc);
    function(&transa, &transb, &m, &n, &k, &x.alpha, x.a, &lda, x.b, &ldb, &x.beta, x.c, &ldc, 1, 1);
}

template <typename T, typename Integer, typename Function>
void call_cblas(Function function, const Call<T> &x) {
    function(x.order, x.transa, x.transb, static_cast<Integer>(x.m), static_cast<Integer>(x.n), static_cast<Integer>(x.k), x.alpha, x.a,
             static_cast<Integer>(x.lda), x.b, static_cast<Integer>(x.ldb), x.beta, x.c, static_cast<Integer>(x.ldc));
}

// The functions of a type by number: Fortran's first, then CBLAS's.
inline constexpr int kFortranForms = 4, kForms = 9;
inline constexpr const char *kFormNames[kForms] = {"gemm_",         "gemm_64_",      "scipy_gemm_",      "scipy_gemm_64_",     "cblas_gemm",
                                                   "cblas_gemm_64", "cblas_gemm64_", "scipy_cblas_gemm", "scipy_cblas_gemm64_"};
inline bool is_fortran(int form) { return form < kFortranForms; }
inline bool has_64_bits(int form) { return form == 1 || form == 3 || form == 5 || form == 6 || form == 8; }

inline void make(int form, const Call<float> &call) {
    switch (form) {
        case 0:
            return call_fortran<float, int32_t>(sgemm_, call);
        case 1:
            return call_fortran<float, int64_t>(sgemm_64_, call);
        case 2:
            return call_fortran<float, int32_t>(scipy_sgemm_, call);
        case 3:
            return call_fortran<float, int64_t>(scipy_sgemm_64_, call);
        case 4:
            return call_cblas<float, int32_t>(cblas_sgemm, call);
        case 5:
            return call_cblas<float, int64_t>(cblas_sgemm_64, call);
        case 6:
            return call_cblas<float, int64_t>(cblas_sgemm64_, call);
        case 7:
            return call_cblas<float, int32_t>(scipy_cblas_sgemm, call);
        default:
            return call_cblas<float, int64_t>(scipy_cblas_sgemm64_, call);
    }
}

inline void make(int form, const Call<double> &call) {
    switch (form) {
        case 0:
            return call_fortran<double, int32_t>(dgemm_, call);
        case 1:
            return call_fortran<double, int64_t>(dgemm_64_, call);
        case 2:
            return call_fortran<double, int32_t>(scipy_dgemm_, call);
        case 3:
            return call_fortran<double, int64_t>(scipy_dgemm_64_, call);
        case 4:
            return call_cblas<double, int32_t>(cblas_dgemm, call);
        case 5:
            return call_cblas<double, int64_t>(cblas_dgemm_64, call);
        case 6:
            return call_cblas<double, int64_t>(cblas_dgemm64_, call);
        case 7:
            return call_cblas<double, int32_t>(scipy_cblas_dgemm, call);
        default:
            return call_cblas<double, int64_t>(scipy_cblas_dgemm64_, call);
    }
}

}  // namespace attile_test

#endif
