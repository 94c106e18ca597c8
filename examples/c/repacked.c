/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights in ggml's blocks of Q4_K, as they lie in a GGUF file, multiplied by attile_gemm.
 *
 *     cc repacked.c $(pkg-config --cflags --libs attile) -lm -o repacked && ./repacked
 *
 * The program compares the product with that of the numbers that the blocks stand for, read by attile_dequantize.
 */
#include <attile/attile.h>
#include <math.h>
#include <stdio.h>

enum { kRows = 3, kColumns = 16, kDepth = 512, kGroups = kDepth / 32, kBytes = kDepth / 256 * 144 };
static uint8_t blocks[kColumns][kBytes], q[kColumns][kDepth / 2];
static float x[kRows][kDepth], y[kRows][kColumns], w[kColumns][kDepth], scale[kColumns][kGroups], zero[kColumns][kGroups];

static int attile_failed(void) {
    char why[1024];
    attile_last_error(why, sizeof why);
    fprintf(stderr, "repacked: %s\n", why);
    return 1;
}

static uint32_t next_bits(void) {
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

int main(void) {
    /* A program would read the blocks; here their bytes are drawn, and d and dmin set to 2^-9 and 2^-8 of float16. */
    for (int n = 0; n < kColumns; ++n)
        for (int i = 0; i < kBytes; ++i) {
            const int at = i % 144;
            blocks[n][i] = at == 1 ? 0x18 : at == 3 ? 0x1c : at < 4 ? 0 : (uint8_t)(next_bits() >> 8);
        }
    for (int m = 0; m < kRows; ++m)
        for (int i = 0; i < kDepth; ++i) x[m][i] = (float)next_bits() / 8388608.0f - 1.0f;
    attile_context *context = NULL;
    if (attile_context_create(NULL, &context)) return attile_failed();

    //! [repack]
    attile_repack_args to;
    attile_repack_init(&to, sizeof to);
    to.format = ATTILE_GGML_Q4_K;
    attile_tensor_init(&to.blocks, blocks, ATTILE_U8, 2, (const int64_t[]){kColumns, kBytes});
    attile_tensor_init(&to.q, q, ATTILE_U4, 2, (const int64_t[]){kColumns, kDepth});
    attile_tensor_init(&to.scale, scale, ATTILE_F32, 2, (const int64_t[]){kColumns, kGroups});
    attile_tensor_init(&to.zero, zero, ATTILE_F32, 2, (const int64_t[]){kColumns, kGroups});
    if (attile_repack(context, &to)) return attile_failed();

    attile_gemm_args args;
    attile_gemm_init(&args, sizeof args);
    attile_tensor_init(&args.a, x, ATTILE_F32, 2, (const int64_t[]){kRows, kDepth});
    args.b = to.q, args.b_scale = to.scale, args.b_zero = to.zero;
    attile_tensor *const of_b[] = {&args.b, &args.b_scale, &args.b_zero};
    for (int i = 0; i < 3; ++i) { /* [n][k] in memory is [K, N] with its strides exchanged */
        const int64_t shape = of_b[i]->shape[0], stride = of_b[i]->stride[0];
        of_b[i]->shape[0] = of_b[i]->shape[1], of_b[i]->stride[0] = of_b[i]->stride[1];
        of_b[i]->shape[1] = shape, of_b[i]->stride[1] = stride;
    }
    attile_tensor_init(&args.d, y, ATTILE_F32, 2, (const int64_t[]){kRows, kColumns});
    if (attile_gemm(context, &args)) return attile_failed();
    //! [repack]

    attile_dequantize_args from;
    attile_dequantize_init(&from, sizeof from);
    from.q = to.q, from.scale = to.scale, from.zero = to.zero;
    attile_tensor_init(&from.x, w, ATTILE_F32, 2, (const int64_t[]){kColumns, kDepth});
    if (attile_dequantize(context, &from)) return attile_failed();
    double worst = 0, largest = 0;
    for (int m = 0; m < kRows; ++m)
        for (int n = 0; n < kColumns; ++n) {
            double sum = 0;
            for (int i = 0; i < kDepth; ++i) sum += (double)x[m][i] * (double)w[n][i];
            const double error = fabs(sum - (double)y[m][n]);
            if (error > worst || isnan(error)) worst = error;
            largest = fmax(largest, fabs(sum));
        }
    printf("%d x %d numbers of %d bytes a row; the product differs by %.1e of %.2f\n", kColumns, kDepth, kBytes, worst, largest);
    attile_context_destroy(context);
    return worst < 1e-4 * largest ? 0 : 1;
}
