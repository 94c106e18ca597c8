/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention of queries, keys and values in 8-bit floats, with a scale for each head.
 *
 *     cc eight_bit_queries.c $(pkg-config --cflags --libs attile) -lm -o eight_bit_queries && ./eight_bit_queries
 *
 * The program compares the result with that of the numbers as they were.
 */
#include <attile/attile.h>
#include <math.h>
#include <stdio.h>

enum { kHeads = 4, kLen = 128, kDim = 64 };
static const int64_t kShape[] = {1, kHeads, kLen, kDim};
static float wide[3][kHeads][kLen][kDim], o[kHeads][kLen][kDim], o_wide[kHeads][kLen][kDim]; /* q, k and v */
static uint8_t narrow[3][kHeads][kLen][kDim];
static float scale[3][kHeads];

static int attile_failed(void) {
    char why[1024];
    attile_last_error(why, sizeof why);
    fprintf(stderr, "eight_bit_queries: %s\n", why);
    return 1;
}

/* Numbers between -1 and 1, the same in every run. */
static float next_number(void) {
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 8388608.0f - 1.0f;
}

/* One scale for each head: its largest magnitude over 448. */
static int32_t quantise(attile_context *context, int which) {
    attile_quantize_args args;
    attile_quantize_init(&args, sizeof args);
    attile_tensor_init(&args.x, wide[which], ATTILE_F32, 4, kShape);
    attile_tensor_init(&args.q, narrow[which], ATTILE_F8_E4M3, 4, kShape);
    attile_tensor_init(&args.scale, scale[which], ATTILE_F32, 3, (const int64_t[]){kHeads, 1, 1});
    args.scale_mode = ATTILE_SCALE_FROM_MAXIMUM;
    return attile_quantize(context, &args);
}

int main(void) {
    attile_context *context = NULL;
    if (attile_context_create(NULL, &context)) return attile_failed();
    float *const numbers = &wide[0][0][0][0];
    for (size_t i = 0; i < sizeof wide / sizeof *numbers; ++i) numbers[i] = next_number();
    for (int which = 0; which < 3; ++which)
        if (quantise(context, which)) return attile_failed();

    //! [call]
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    attile_tensor *const tensors[] = {&args.q, &args.k, &args.v}, *const scales[] = {&args.q_scale, &args.k_scale, &args.v_scale};
    for (int i = 0; i < 3; ++i) {
        attile_tensor_init(tensors[i], narrow[i], ATTILE_F8_E4M3, 4, kShape); /* 1, kHeads, kLen, kDim */
        attile_tensor_init(scales[i], scale[i], ATTILE_F32, 3, (const int64_t[]){kHeads, 1, 1});
    }
    attile_tensor_init(&args.o, o, ATTILE_F32, 4, kShape); /* or in ATTILE_BF16 or ATTILE_F16 */
    args.flags = ATTILE_FLAG_FAST_ACCUMULATION;            /* e4m3 may be multiplied as it is */
    if (attile_attention(context, &args)) return attile_failed();
    //! [call]

    attile_attention_init(&args, sizeof args);
    for (int i = 0; i < 3; ++i) attile_tensor_init(tensors[i], wide[i], ATTILE_F32, 4, kShape);
    attile_tensor_init(&args.o, o_wide, ATTILE_F32, 4, kShape);
    if (attile_attention(context, &args)) return attile_failed();
    attile_context_destroy(context);

    double worst = 0;
    int wrong = 0;
    for (int h = 0; h < kHeads; ++h)
        for (int i = 0; i < kLen; ++i)
            for (int d = 0; d < kDim; ++d) {
                const double error = fabs(o[h][i][d] - o_wide[h][i][d]);
                if (error > worst) worst = error;
                wrong |= !(error <= 0.15);
            }
    printf("off by %.3g at most\n", worst);
    /* A number is off by 1 / 16 of itself at most, and so is a weight that is rounded: values by 1 / 16, their sum by as much again, and a
     * score moves little, since its errors are of both signs. */
    if (wrong) return fprintf(stderr, "eight_bit_queries: wrong result\n"), 1;
    return 0;
}
