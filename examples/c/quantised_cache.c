/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding from keys and values in 8 bits: each token's row is quantised when it is appended, with a scale of its own.
 *
 *     cc quantised_cache.c $(pkg-config --cflags --libs attile) -lm -o quantised_cache && ./quantised_cache
 *
 * The program compares each step with the same from keys and values as they were.
 */
#include <attile/attile.h>
#include <math.h>
#include <stdio.h>

enum { kHeadsQ = 8, kHeadsKv = 2, kDim = 64, kMax = 40 };
static float q[kHeadsQ][kDim], o[kHeadsQ][kDim], o_wide[kHeadsQ][kDim];
static float k_wide[kHeadsKv][kMax][kDim], v_wide[kHeadsKv][kMax][kDim];
//! [cache]
static int8_t k_cache[kHeadsKv][kMax][kDim], v_cache[kHeadsKv][kMax][kDim];
static float k_scale[kHeadsKv][kMax], v_scale[kHeadsKv][kMax];
//! [cache]

static int attile_failed(void) {
    char why[1024];
    attile_last_error(why, sizeof why);
    fprintf(stderr, "quantised_cache: %s\n", why);
    return 1;
}

/* Numbers between -1 and 1, the same in every run. */
static float next_number(void) {
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 8388608.0f - 1.0f;
}

/* One row and its scale. A row of zeros has the scale 0. */
static float quantise(const float *x, int8_t *row) {
    float largest = 0;
    for (int d = 0; d < kDim; ++d) largest = fmaxf(largest, fabsf(x[d]));
    const float scale = largest / 127;
    for (int d = 0; d < kDim; ++d) row[d] = scale == 0 ? 0 : (int8_t)lrintf(x[d] / scale);
    return scale;
}

/* A model would compute the rows of a token; here they are drawn. */
static void append(int j) {
    for (int h = 0; h < kHeadsKv; ++h) {
        for (int d = 0; d < kDim; ++d) k_wide[h][j][d] = next_number(), v_wide[h][j][d] = next_number();
        k_scale[h][j] = quantise(k_wide[h][j], k_cache[h][j]);
        v_scale[h][j] = quantise(v_wide[h][j], v_cache[h][j]);
    }
    for (int h = 0; h < kHeadsQ; ++h)
        for (int d = 0; d < kDim; ++d) q[h][d] = next_number();
}

/* One row over the first `length` keys; both tensors, and their scales, are described by the whole cache. */
static void set_length(attile_attention_args *args, int length) {
    attile_tensor *const tensors[] = {&args->k, &args->v, &args->k_scale, &args->v_scale};
    for (int i = 0; i < 4; ++i)
        if (tensors[i]->dtype) tensors[i]->shape[2] = length;
}

int main(void) {
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = "cpu,reference"; /* cuda and hip have no keys of 8 bits yet */
    attile_context *context = NULL;
    if (attile_context_create(&options, &context)) return attile_failed();

    attile_attention_args wide;
    attile_attention_init(&wide, sizeof wide);
    attile_tensor_init(&wide.q, q, ATTILE_F32, 4, (const int64_t[]){1, kHeadsQ, 1, kDim});
    attile_tensor_init(&wide.k, k_wide, ATTILE_F32, 4, (const int64_t[]){1, kHeadsKv, kMax, kDim});
    attile_tensor_init(&wide.v, v_wide, ATTILE_F32, 4, (const int64_t[]){1, kHeadsKv, kMax, kDim});
    attile_tensor_init(&wide.o, o_wide, ATTILE_F32, 4, (const int64_t[]){1, kHeadsQ, 1, kDim});

    //! [call]
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    attile_tensor_init(&args.q, q, ATTILE_F32, 4, (const int64_t[]){1, kHeadsQ, 1, kDim});
    attile_tensor_init(&args.k, k_cache, ATTILE_I8, 4, (const int64_t[]){1, kHeadsKv, kMax, kDim});
    attile_tensor_init(&args.v, v_cache, ATTILE_I8, 4, (const int64_t[]){1, kHeadsKv, kMax, kDim});
    attile_tensor_init(&args.k_scale, k_scale, ATTILE_F32, 4, (const int64_t[]){1, kHeadsKv, kMax, 1}); /* one for each token and head */
    attile_tensor_init(&args.v_scale, v_scale, ATTILE_F32, 4, (const int64_t[]){1, kHeadsKv, kMax, 1});
    attile_tensor_init(&args.o, o, ATTILE_F32, 4, (const int64_t[]){1, kHeadsQ, 1, kDim});
    //! [call]

    double worst = 0;
    int wrong = 0;
    for (int j = 0; j < kMax; ++j) {
        append(j);
        set_length(&args, j + 1);
        set_length(&wide, j + 1);
        if (attile_attention(context, &args) || attile_attention(context, &wide)) return attile_failed();
        for (int h = 0; h < kHeadsQ; ++h)
            for (int d = 0; d < kDim; ++d) {
                const double error = fabs(o[h][d] - o_wide[h][d]);
                if (error > worst) worst = error;
                wrong |= !(error <= 0.08);
            }
    }
    attile_context_destroy(context);
    printf("%d bytes of keys and values instead of %d; off by %.3g at most\n",
           (int)(sizeof k_cache + sizeof v_cache + sizeof k_scale + sizeof v_scale), (int)(sizeof k_wide + sizeof v_wide), worst);
    /* A number is off by half a step, 1 / 254 at most: so a value, and a score by 64 / 254 / 8, which moves weights by up to 1 / 15. */
    if (wrong) return fprintf(stderr, "quantised_cache: wrong result\n"), 1;
    return 0;
}
