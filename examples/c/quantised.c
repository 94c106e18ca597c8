/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights in 8 bits: quantise a matrix once, multiply by it.
 *
 *     cc quantised.c $(pkg-config --cflags --libs attile) -lm -o quantised && ./quantised
 *
 * The weights are stored as [n][k], as frameworks store them, with a scale for each 32 numbers of a row. The program compares the product
 * with that of the weights as they were.
 */
#include <attile/attile.h>
#include <math.h>
#include <stdio.h>

enum { kRows = 4, kColumns = 48, kDepth = 96, kGroups = 3 };

static int attile_failed(void) {
    char why[1024];
    attile_last_error(why, sizeof why);
    fprintf(stderr, "quantised: %s\n", why);
    return 1;
}

/* Numbers between -1 and 1, the same in every run. */
static float next_number(void) {
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 8388608.0f - 1.0f;
}

int main(void) {
    static float x[kRows * kDepth], w[kColumns * kDepth], y[kRows * kColumns], scale[kColumns * kGroups];
    static int8_t q[kColumns * kDepth];
    for (int i = 0; i < kRows * kDepth; ++i) x[i] = next_number();
    for (int i = 0; i < kColumns * kDepth; ++i) w[i] = next_number();

    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = "cpu,reference"; /* cuda and hip have no numbers of 8 bits yet */
    attile_context *context = NULL;
    if (attile_context_create(&options, &context)) return attile_failed();

    //! [quantise]
    attile_quantize_args to;
    attile_quantize_init(&to, sizeof to);
    attile_tensor_init(&to.x, w, ATTILE_F32, 2, (const int64_t[]){kColumns, kDepth});
    attile_tensor_init(&to.q, q, ATTILE_I8, 2, (const int64_t[]){kColumns, kDepth});
    attile_tensor_init(&to.scale, scale, ATTILE_F32, 2, (const int64_t[]){kColumns, kGroups}); /* 96 / 3: one for each 32 numbers */
    if (attile_quantize(context, &to)) return attile_failed();
    //! [quantise]

    //! [weights]
    attile_gemm_args args;
    attile_gemm_init(&args, sizeof args);
    attile_tensor_init(&args.a, x, ATTILE_F32, 2, (const int64_t[]){kRows, kDepth});
    attile_tensor_init(&args.b, q, ATTILE_I8, 2, (const int64_t[]){kDepth, kColumns});
    args.b.stride[0] = 1; /* q is [n][k]: one step down B is one step along a row of q. */
    args.b.stride[1] = kDepth;
    attile_tensor_init(&args.b_scale, scale, ATTILE_F32, 2, (const int64_t[]){kGroups, kColumns});
    args.b_scale.stride[0] = 1;
    args.b_scale.stride[1] = kGroups;
    attile_tensor_init(&args.d, y, ATTILE_F32, 2, (const int64_t[]){kRows, kColumns});
    if (attile_gemm(context, &args)) return attile_failed();
    //! [weights]
    attile_context_destroy(context);

    double worst = 0, allowed = 0;
    for (int m = 0; m < kRows; ++m)
        for (int n = 0; n < kColumns; ++n) {
            double sum = 0, bound = 0;
            for (int k = 0; k < kDepth; ++k) {
                sum += (double)x[m * kDepth + k] * w[n * kDepth + k];
                bound += fabs(x[m * kDepth + k]) * scale[n * kGroups + k * kGroups / kDepth] / 2; /* a weight is off by half a step */
            }
            const double error = fabs(y[m * kColumns + n] - sum);
            if (error > worst || isnan(error)) worst = error;
            allowed = fmax(allowed, bound);
        }
    printf("%d bytes of weights instead of %d; off by %.3g at most\n", (int)(sizeof q + sizeof scale), (int)sizeof w, worst);
    if (!(worst <= allowed)) return fprintf(stderr, "quantised: wrong result\n"), 1;
    return 0;
}
