/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix multiplication, twice: with the arguments of BLAS, and with what BLAS lacks.
 *
 *     cc gemm.c $(pkg-config --cflags --libs attile) -o gemm && ./gemm
 *
 * First C = A B through attile_sgemm(), which takes what cblas_sgemm() takes. Then one layer of a neural network, D = relu(X W^T + bias),
 * through attile_gemm(): a transposed matrix is a matter of strides, and the bias and the activation cost no second pass over D.
 */
#include <attile/attile.h>
#include <stdio.h>

static int attile_failed(void) {
    char why[1024];
    attile_last_error(why, sizeof why); /* which argument, its value, what was expected */
    fprintf(stderr, "gemm: %s\n", why);
    return 1;
}

static void print_matrix(const char *name, const float *x, int rows, int columns) {
    printf("%s =\n", name);
    for (int i = 0; i < rows; ++i) {
        for (int j = 0; j < columns; ++j) printf(" %6g", x[i * columns + j]);
        printf("\n");
    }
}

static int multiply(attile_context *context) {
    //! [product]
    const float a[2 * 3] = {1, 2, 3, /* */ 4, 5, 6};
    const float b[3 * 2] = {1, 0, /* */ 0, 1, /* */ 1, 1};
    float c[2 * 2];
    /* beta = 0: what c holds before is not read, so it need not be set. */
    if (attile_sgemm(context, ATTILE_ROW_MAJOR, ATTILE_NO_TRANS, ATTILE_NO_TRANS, 2, 2, 3, 1.0, a, 3, b, 2, 0.0, c, 2))
        return attile_failed();
    //! [product]
    print_matrix("A B", c, 2, 2);

    const float expected[2 * 2] = {4, 5, 10, 11};
    for (int i = 0; i < 4; ++i)
        if (c[i] != expected[i]) return fprintf(stderr, "gemm: wrong result\n"), 1; /* small integers: exact on every backend */
    return 0;
}

static int layer(attile_context *context) {
    float x[2 * 3] = {1, 2, 3, /* */ 4, 5, 6};                                  /* 2 samples of 3 features */
    float w[4 * 3] = {1, 0, 0, /* */ 0, 1, 0, /* */ 0, 0, 1, /* */ -1, -1, -1}; /* 4 units with 3 weights each */
    float bias[4] = {0.5f, 0.5f, 0.5f, 0.5f};
    float d[2 * 4];

    //! [layer]
    attile_gemm_args args;
    attile_gemm_init(&args, sizeof args); /* alpha is 1, everything else 0: no C, no bias, no activation */
    attile_tensor_init(&args.a, x, ATTILE_F32, 2, (const int64_t[]){2, 3});
    attile_tensor_init(&args.b, w, ATTILE_F32, 2, (const int64_t[]){3, 4});
    args.b.stride[0] = 1; /* B = W^T: one step down B is one step along a row of W, */
    args.b.stride[1] = 3; /* one step to the right is the next row of W. */
    attile_tensor_init(&args.d, d, ATTILE_F32, 2, (const int64_t[]){2, 4});
    attile_tensor_init(&args.bias, bias, ATTILE_F32, 1, (const int64_t[]){4});
    args.bias_axis = ATTILE_BIAS_COLUMNS;
    args.activation = ATTILE_ACTIVATION_RELU;
    if (attile_gemm(context, &args)) return attile_failed();
    //! [layer]
    print_matrix("relu(X W^T + bias)", d, 2, 4);

    const float expected[2 * 4] = {1.5f, 2.5f, 3.5f, 0, 4.5f, 5.5f, 6.5f, 0};
    for (int i = 0; i < 8; ++i)
        if (d[i] != expected[i]) return fprintf(stderr, "gemm: wrong result\n"), 1;
    return 0;
}

int main(void) {
    attile_context *context = NULL;
    if (attile_context_create(NULL, &context)) return attile_failed();
    const int failed = multiply(context) || layer(context);
    attile_context_destroy(context);
    return failed;
}
