// SPDX-License-Identifier: Apache-2.0
// Products with factors that are not finite, with arrays that are not aligned, and with a C that shares memory with A or B.
#ifndef ATTILE_BLAS_COPIES_H
#define ATTILE_BLAS_COPIES_H

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "product.h"

namespace attile::blas {

// A dense matrix of our own, released at the end; data is NULL if there was no memory.
template <typename T>
struct Copy {
    T *data = nullptr;
    int64_t rows, columns;

    Copy(int64_t rows_, int64_t columns_) : rows(rows_), columns(columns_) {
        size_t elements = 0, bytes = 0;
        if (__builtin_mul_overflow(rows, columns, &elements) || __builtin_mul_overflow(elements, sizeof(T), &bytes)) return;
        data = static_cast<T *>(std::malloc(bytes != 0 ? bytes : 1));
    }
    ~Copy() { std::free(data); }
    Copy(const Copy &) = delete;
    Copy &operator=(const Copy &) = delete;

    T &at(int64_t row, int64_t column) { return data[column * rows + row]; }
};

// An element at any address.
template <typename T>
T read(const T *data, int64_t index) {
    T value;
    std::memcpy(&value, reinterpret_cast<const char *>(data) + index * static_cast<int64_t>(sizeof(T)), sizeof value);
    return value;
}

template <typename T>
void read_matrix(const T *data, int64_t leading, Copy<T> *copy) {
    for (int64_t column = 0; column < copy->columns; ++column)
        for (int64_t row = 0; row < copy->rows; ++row) copy->at(row, column) = read(data, column * leading + row);
}

// As if A and B had been read before C was written. The product itself is made by `run` of copies, factors and all if they are finite;
// others are applied here. ATTILE_ERROR_OUT_OF_HOST_MEMORY: there was none for the copies; else the status of `run`.
template <typename T>
int32_t compute_by_copies(const Product<T> &product, int32_t (*run)(const Product<T> &)) {
    const bool reads = product.alpha != T(0) && product.k > 0;
    const bool a_plain = product.transa == ATTILE_NO_TRANS, b_plain = product.transb == ATTILE_NO_TRANS;
    const int64_t k = reads ? product.k : 0;
    Product<T> plain = product;
    const bool is_finite = reads && std::isfinite(product.alpha) && std::isfinite(product.beta);
    if (!is_finite) {
        plain.alpha = T(1);
        plain.beta = T(0);
    }
    if (product.c == nullptr || (reads && (product.a == nullptr || product.b == nullptr))) return run(plain);  // which says so
    Copy<T> a(a_plain ? product.m : k, a_plain ? k : product.m), b(b_plain ? k : product.n, b_plain ? product.n : k),
        ab(product.m, product.n);
    if (a.data == nullptr || b.data == nullptr || ab.data == nullptr) return ATTILE_ERROR_OUT_OF_HOST_MEMORY;
    if (reads) {
        read_matrix(product.a, product.lda, &a);
        read_matrix(product.b, product.ldb, &b);
        plain.a = a.data;
        plain.lda = a.rows;
        plain.b = b.data;
        plain.ldb = b.rows;
        plain.c = ab.data;
        plain.ldc = ab.rows;
        if (plain.beta != T(0)) read_matrix(product.c, product.ldc, &ab);
        if (const int32_t status = run(plain)) return status;
    }
    for (int64_t column = 0; column < product.n; ++column) {
        for (int64_t row = 0; row < product.m; ++row) {
            const int64_t index = column * product.ldc + row;
            T sum = is_finite ? ab.at(row, column) : reads ? product.alpha * ab.at(row, column) : T(0);
            if (!is_finite && product.beta != T(0)) sum += product.beta * read(product.c, index);
            std::memcpy(reinterpret_cast<char *>(product.c) + index * static_cast<int64_t>(sizeof(T)), &sum, sizeof sum);
        }
    }
    return ATTILE_OK;
}

}  // namespace attile::blas

#endif
