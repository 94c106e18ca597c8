/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A decode loop over a paged cache of 8 bits: each step rotates q and the new keys by their positions, appends keys and values with a scale
 * for each row, and attends.
 *
 *     cc quantised_append.c $(pkg-config --cflags --libs attile) -lm -o quantised_append && ./quantised_append
 *
 * The program compares the last step with attention over keys and values that were rotated one by one and never quantised.
 */
#include <attile/attile.h>
#include <math.h>
#include <stdio.h>

enum { kHeadsQ = 8, kHeadsKv = 2, kDim = 64, kPairs = kDim / 2, kPageSize = 16, kPages = 6, kSteps = 40 };
static float q[kHeadsQ][kDim], k[kHeadsKv][kDim], v[kHeadsKv][kDim], q_rotated[kHeadsQ][kDim], o[kHeadsQ][kDim], o_wide[kHeadsQ][kDim];
static float k_wide[kHeadsKv][kSteps][kDim], v_wide[kHeadsKv][kSteps][kDim], cosines[kSteps][kPairs], sines[kSteps][kPairs];
static int8_t k_cache[kPages][kHeadsKv][kPageSize][kDim], v_cache[kPages][kHeadsKv][kPageSize][kDim];
static float k_scale[kPages][kHeadsKv][kPageSize], v_scale[kPages][kHeadsKv][kPageSize];

static int attile_failed(void) {
    char why[1024];
    attile_last_error(why, sizeof why);
    fprintf(stderr, "quantised_append: %s\n", why);
    return 1;
}

/* Numbers between -1 and 1, the same in every run. */
static float next_number(void) {
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 8388608.0f - 1.0f;
}

/* A model would compute the rows of a token; here they are drawn. */
static void draw_token(int step) {
    for (int h = 0; h < kHeadsQ; ++h)
        for (int d = 0; d < kDim; ++d) q[h][d] = next_number();
    for (int h = 0; h < kHeadsKv; ++h) {
        for (int d = 0; d < kDim; ++d) k[h][d] = next_number(), v_wide[h][step][d] = v[h][d] = next_number();
        for (int i = 0; i < kPairs; ++i) {
            const float c = cosines[step][i], s = sines[step][i];
            k_wide[h][step][i] = k[h][i] * c - k[h][kPairs + i] * s;
            k_wide[h][step][kPairs + i] = k[h][kPairs + i] * c + k[h][i] * s;
        }
    }
}

int main(void) {
    attile_context *context = NULL;
    if (attile_context_create(NULL, &context)) return attile_failed();
    for (int p = 0; p < kSteps; ++p)
        for (int i = 0; i < kPairs; ++i) {
            const double angle = p * pow(10000.0, -(double)i / kPairs);
            cosines[p][i] = (float)cos(angle), sines[p][i] = (float)sin(angle);
        }

    //! [append]
    int32_t length = 0, table[3] = {4, 0, 2}; /* the pages of this sequence */
    attile_tensor lengths, pages;
    attile_tensor_init(&lengths, &length, ATTILE_I32, 1, (const int64_t[]){1});
    attile_tensor_init(&pages, table, ATTILE_I32, 2, (const int64_t[]){1, 3});
    attile_quantize_args to[2]; /* of keys, of values */
    for (int i = 0; i < 2; ++i) {
        attile_quantize_init(&to[i], sizeof to[i]);
        attile_tensor_init(&to[i].x, i == 0 ? k : v, ATTILE_F32, 4, (const int64_t[]){1, kHeadsKv, 1, kDim});
        attile_tensor_init(&to[i].q, i == 0 ? k_cache : v_cache, ATTILE_I8, 4, (const int64_t[]){kPages, kHeadsKv, kPageSize, kDim});
        attile_tensor_init(&to[i].scale, i == 0 ? k_scale : v_scale, ATTILE_F32, 4, (const int64_t[]){kPages, kHeadsKv, kPageSize, 1});
        to[i].append = 1;
        to[i].key_lengths = lengths;
        to[i].block_table = pages;
    }
    attile_tensor_init(&to[0].rope_cos, cosines, ATTILE_F32, 2, (const int64_t[]){kSteps, kPairs});
    attile_tensor_init(&to[0].rope_sin, sines, ATTILE_F32, 2, (const int64_t[]){kSteps, kPairs});

    attile_quantize_args rotate; /* of queries: floats, and no cache */
    attile_quantize_init(&rotate, sizeof rotate);
    attile_tensor_init(&rotate.x, q, ATTILE_F32, 4, (const int64_t[]){1, kHeadsQ, 1, kDim});
    attile_tensor_init(&rotate.q, q_rotated, ATTILE_F32, 4, (const int64_t[]){1, kHeadsQ, 1, kDim});
    rotate.rope_cos = to[0].rope_cos;
    rotate.rope_sin = to[0].rope_sin;
    rotate.key_lengths = lengths;

    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    args.q = rotate.q;
    args.k = to[0].q, args.k_scale = to[0].scale;
    args.v = to[1].q, args.v_scale = to[1].scale;
    args.key_lengths = lengths;
    args.block_table = pages;
    attile_tensor_init(&args.o, o, ATTILE_F32, 4, (const int64_t[]){1, kHeadsQ, 1, kDim});

    for (int step = 0; step < kSteps; ++step) {
        draw_token(step);
        length += 1; /* on a GPU by a kernel, so that the step is one graph */
        if (attile_quantize(context, &rotate) || attile_quantize(context, &to[0]) || attile_quantize(context, &to[1]))
            return attile_failed();
        if (attile_attention(context, &args)) return attile_failed();
    }
    //! [append]

    attile_attention_args wide;
    attile_attention_init(&wide, sizeof wide);
    wide.q = rotate.q;
    attile_tensor_init(&wide.k, k_wide, ATTILE_F32, 4, (const int64_t[]){1, kHeadsKv, kSteps, kDim});
    attile_tensor_init(&wide.v, v_wide, ATTILE_F32, 4, (const int64_t[]){1, kHeadsKv, kSteps, kDim});
    attile_tensor_init(&wide.o, o_wide, ATTILE_F32, 4, (const int64_t[]){1, kHeadsQ, 1, kDim});
    if (attile_attention(context, &wide)) return attile_failed();
    double worst = 0;
    int wrong = 0;
    for (int h = 0; h < kHeadsQ; ++h)
        for (int d = 0; d < kDim; ++d) {
            const double error = fabs((double)o[h][d] - (double)o_wide[h][d]);
            if (error > worst) worst = error;
            wrong |= !(error < 0.02);
        }
    printf("%d steps; the last differs by %.4f at most from one of keys and values in float32\n", kSteps, worst);
    attile_context_destroy(context);
    return wrong;
}
