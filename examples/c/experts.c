/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A layer of a mixture of experts: each token goes through the two matrices of its expert.
 *
 *     cc experts.c $(pkg-config --cflags --libs attile) -lm -o experts && ./experts
 *
 * Tokens are sorted by expert. The offsets of the experts' rows may lie on the device, where a router writes them; here everything is in
 * ordinary memory. The program compares with plain loops.
 */
#include <attile/attile.h>
#include <math.h>
#include <stdio.h>

enum { kTokens = 10, kExperts = 4, kWidth = 24, kInner = 40 };

static int attile_failed(void) {
    char why[1024];
    attile_last_error(why, sizeof why);
    fprintf(stderr, "experts: %s\n", why);
    return 1;
}

/* Numbers between -1 and 1, the same in every run. */
static float next_number(void) {
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 8388608.0f - 1.0f;
}

/* What the layer makes of a token, by its expert. */
static void plain_token(const float *x, const float *up, const float *down, double *y) {
    double inner[kInner];
    for (int i = 0; i < kInner; ++i) {
        double sum = 0;
        for (int k = 0; k < kWidth; ++k) sum += (double)x[k] * up[i * kWidth + k];
        inner[i] = sum / (1 + exp(-sum));
    }
    for (int n = 0; n < kWidth; ++n) {
        y[n] = 0;
        for (int i = 0; i < kInner; ++i) y[n] += inner[i] * down[n * kInner + i];
    }
}

int main(void) {
    static float x[kTokens * kWidth], h[kTokens * kInner], y[kTokens * kWidth];
    static float up[kExperts * kInner * kWidth], down[kExperts * kWidth * kInner]; /* [expert][n][k], as frameworks store them */
    int32_t offsets[kExperts + 1] = {0, 3, 3, 8, 10};                              /* expert 1 has no token */
    for (int i = 0; i < kTokens * kWidth; ++i) x[i] = next_number();
    for (int i = 0; i < kExperts * kInner * kWidth; ++i) up[i] = next_number();
    for (int i = 0; i < kExperts * kWidth * kInner; ++i) down[i] = next_number();

    attile_context *context = NULL;
    if (attile_context_create(NULL, &context)) return attile_failed();

    //! [layer]
    attile_gemm_grouped_args args;
    attile_gemm_grouped_init(&args, sizeof args);
    attile_tensor_init(&args.a, x, ATTILE_F32, 2, (const int64_t[]){kTokens, kWidth});
    attile_tensor_init(&args.b, up, ATTILE_F32, 3, (const int64_t[]){kExperts, kWidth, kInner});
    args.b.stride[1] = 1; /* up is [expert][n][k]: one step down B is one step along a row of up. */
    args.b.stride[2] = kWidth;
    attile_tensor_init(&args.row_offsets, offsets, ATTILE_I32, 1, (const int64_t[]){kExperts + 1});
    attile_tensor_init(&args.d, h, ATTILE_F32, 2, (const int64_t[]){kTokens, kInner});
    args.activation = ATTILE_ACTIVATION_SILU;
    if (attile_gemm_grouped(context, &args)) return attile_failed();
    //! [layer]

    args.a = args.d;
    attile_tensor_init(&args.b, down, ATTILE_F32, 3, (const int64_t[]){kExperts, kInner, kWidth});
    args.b.stride[1] = 1;
    args.b.stride[2] = kInner;
    attile_tensor_init(&args.d, y, ATTILE_F32, 2, (const int64_t[]){kTokens, kWidth});
    args.activation = ATTILE_ACTIVATION_NONE;
    if (attile_gemm_grouped(context, &args)) return attile_failed();
    attile_context_destroy(context);

    double worst = 0;
    int wrong = 0;
    for (int expert = 0; expert < kExperts; ++expert)
        for (int t = offsets[expert]; t < offsets[expert + 1]; ++t) {
            double expected[kWidth];
            plain_token(x + t * kWidth, up + expert * kInner * kWidth, down + expert * kWidth * kInner, expected);
            for (int n = 0; n < kWidth; ++n) {
                const double error = fabs(y[t * kWidth + n] - expected[n]);
                if (error > worst) worst = error;
                wrong |= !(error <= 1e-4);
            }
        }
    printf("%d tokens by %d experts; off by %.3g at most\n", kTokens, kExperts, worst);
    if (wrong) return fprintf(stderr, "experts: wrong result\n"), 1;
    return 0;
}
