/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding with a K/V cache: each step appends one key and one value to the cache of every sequence and computes one row of attention.
 *
 *     cc decode.c $(pkg-config --cflags --libs attile) -lm -o decode && ./decode
 *
 * Two sequences of different lengths share a batch. Eight query heads share two key heads. After each step the program compares the new
 * rows with those of one causal attention of the whole sequences, and the last step is repeated with the cache cut into pages.
 */
#include <attile/attile.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { kBatch = 2, kHeadsQ = 8, kHeadsKv = 2, kDim = 16, kMax = 24, kSteps = 10, kPageKeys = 8, kPages = kBatch * kMax / kPageKeys };
static float q_all[kBatch][kHeadsQ][kMax][kDim], k_all[kBatch][kHeadsKv][kMax][kDim], v_all[kBatch][kHeadsKv][kMax][kDim];
static float expected[kBatch][kHeadsQ][kMax][kDim];
static float q[kBatch][kHeadsQ][1][kDim], o[kBatch][kHeadsQ][1][kDim];
static float k_cache[kBatch][kHeadsKv][kMax][kDim], v_cache[kBatch][kHeadsKv][kMax][kDim];
static float k_pages[kPages][kHeadsKv][kPageKeys][kDim], v_pages[kPages][kHeadsKv][kPageKeys][kDim];
static int differs;
static int32_t lengths[kBatch] = {9, 5}, table[kBatch][kMax / kPageKeys];

/* What the whole sequences give in one call, with a causal mask: the rows that decoding must give one by one. */
static int32_t all_at_once(attile_context *context) {
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    attile_tensor_init(&args.q, q_all, ATTILE_F32, 4, (const int64_t[]){kBatch, kHeadsQ, kMax, kDim});
    attile_tensor_init(&args.k, k_all, ATTILE_F32, 4, (const int64_t[]){kBatch, kHeadsKv, kMax, kDim});
    attile_tensor_init(&args.v, v_all, ATTILE_F32, 4, (const int64_t[]){kBatch, kHeadsKv, kMax, kDim});
    attile_tensor_init(&args.o, expected, ATTILE_F32, 4, (const int64_t[]){kBatch, kHeadsQ, kMax, kDim});
    args.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
    return attile_attention(context, &args);
}

/* A model would compute the new query, key and value from the last token; here they are rows of the whole sequences. */
static void next_rows(int b) {
    const int row = lengths[b];
    for (int h = 0; h < kHeadsQ; ++h) memcpy(q[b][h][0], q_all[b][h][row], sizeof q[b][h][0]);
    for (int h = 0; h < kHeadsKv; ++h) {
        memcpy(k_cache[b][h][row], k_all[b][h][row], sizeof k_cache[b][h][row]);
        memcpy(v_cache[b][h][row], v_all[b][h][row], sizeof v_cache[b][h][row]);
    }
}

static int wrong(void) {
    for (int b = 0; b < kBatch; ++b)
        for (int h = 0; h < kHeadsQ; ++h)
            for (int d = 0; d < kDim; ++d)
                if (!(fabsf(o[b][h][0][d] - expected[b][h][lengths[b] - 1][d]) <= 1e-5f)) return 1;
    return 0;
}

static int32_t decode(attile_context *context) {
    //! [cache]
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    attile_tensor_init(&args.q, q, ATTILE_F32, 4, (const int64_t[]){kBatch, kHeadsQ, 1, kDim});
    attile_tensor_init(&args.k, k_cache, ATTILE_F32, 4, (const int64_t[]){kBatch, kHeadsKv, kMax, kDim});
    attile_tensor_init(&args.v, v_cache, ATTILE_F32, 4, (const int64_t[]){kBatch, kHeadsKv, kMax, kDim});
    attile_tensor_init(&args.o, o, ATTILE_F32, 4, (const int64_t[]){kBatch, kHeadsQ, 1, kDim});
    attile_tensor_init(&args.key_lengths, lengths, ATTILE_I32, 1, (const int64_t[]){kBatch});
    //! [cache]

    //! [step]
    for (int step = 0; step < kSteps; ++step) {
        for (int b = 0; b < kBatch; ++b) {
            next_rows(b); /* q[b], and row lengths[b] of k_cache[b] and v_cache[b] */
            ++lengths[b];
        }
        const int32_t status = attile_attention(context, &args); /* one row for each sequence and head */
        if (status) return status;
        differs |= wrong();
    }
    //! [step]

    for (int b = 0; b < kBatch; ++b) /* the same keys in pages, which lie in the opposite order */
        for (int p = 0; p < kMax / kPageKeys; ++p) {
            table[b][p] = kPages - 1 - (b * (kMax / kPageKeys) + p);
            for (int h = 0; h < kHeadsKv; ++h) {
                memcpy(k_pages[table[b][p]][h], k_cache[b][h][p * kPageKeys], sizeof k_pages[0][h]);
                memcpy(v_pages[table[b][p]][h], v_cache[b][h][p * kPageKeys], sizeof v_pages[0][h]);
            }
        }
    //! [pages]
    attile_tensor_init(&args.k, k_pages, ATTILE_F32, 4, (const int64_t[]){kPages, kHeadsKv, kPageKeys, kDim});
    attile_tensor_init(&args.v, v_pages, ATTILE_F32, 4, (const int64_t[]){kPages, kHeadsKv, kPageKeys, kDim});
    attile_tensor_init(&args.block_table, table, ATTILE_I32, 2, (const int64_t[]){kBatch, kMax / kPageKeys});
    const int32_t status = attile_attention(context, &args); /* key j of sequence b: page table[b][j / kPageKeys], row j % kPageKeys */
    //! [pages]
    if (!status) differs |= wrong();
    return status;
}

static void fill(float *x, size_t bytes, int factor) {
    for (size_t i = 0; i < bytes / sizeof *x; ++i) x[i] = (float)((int)(i * (size_t)factor % 101) - 50) / 32;
}

int main(void) {
    fill(&q_all[0][0][0][0], sizeof q_all, 37);
    fill(&k_all[0][0][0][0], sizeof k_all, 61);
    fill(&v_all[0][0][0][0], sizeof v_all, 53);
    for (int b = 0; b < kBatch; ++b) /* the prompts' keys and values */
        for (int h = 0; h < kHeadsKv; ++h) {
            memcpy(k_cache[b][h], k_all[b][h], (size_t)lengths[b] * sizeof k_all[b][h][0]);
            memcpy(v_cache[b][h], v_all[b][h], (size_t)lengths[b] * sizeof v_all[b][h][0]);
        }

    attile_context *context = NULL;
    int32_t status = attile_context_create(NULL, &context);
    if (!status) status = all_at_once(context);
    if (!status) status = decode(context);
    char why[512] = "the rows are not those of the whole sequences";
    if (status) attile_last_error(why, sizeof why);
    attile_context_destroy(context);
    if (status || differs) return fprintf(stderr, "decode: %s\n", why), 1;
    printf("%d steps, %d and %d keys, first value %g\n", kSteps, lengths[0], lengths[1], o[0][0][0][0]);
    return 0;
}
