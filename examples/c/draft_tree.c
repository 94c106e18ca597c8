/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Speculative decoding: a tree of drafts is checked in one call, over keys and values in pages.
 *
 *     cc draft_tree.c $(pkg-config --cflags --libs attile) -lm -o draft_tree && ./draft_tree
 *
 * Two sequences of different lengths have a tree of six drafts each. The program compares the row of each draft with attention of that one
 * row over the keys of its sequence and of the drafts on its way to the root.
 */
#include <attile/attile.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { kBatch = 2, kHeadsQ = 8, kHeadsKv = 2, kDim = 16, kDrafts = 6, kMax = 24, kPageKeys = 8, kPages = kBatch * kMax / kPageKeys };
static float q[kBatch][kHeadsQ][kDrafts][kDim], o[kBatch][kHeadsQ][kDrafts][kDim];
static float k_all[kBatch][kHeadsKv][kMax][kDim], v_all[kBatch][kHeadsKv][kMax][kDim];
static float k_pages[kPages][kHeadsKv][kPageKeys][kDim], v_pages[kPages][kHeadsKv][kPageKeys][kDim];
static int32_t table[kBatch][kMax / kPageKeys], lengths[kBatch] = {9, 5};
static uint8_t sees[kBatch][1][kDrafts][kDrafts];

//! [parents]
/* The draft that each draft continues; -1: the sequence itself. A draft comes after the one that it continues. */
static const int parents[kBatch][kDrafts] = {{-1, 0, 0, 1, 1, 2}, {-1, -1, 0, 1, 1, 4}};
//! [parents]

/* A model would compute keys and values of new tokens; here they are drawn. Key j of sequence b goes to page table[b][j / kPageKeys]. */
static void append(int b, int count) {
    for (int j = lengths[b]; j < lengths[b] + count; ++j)
        for (int h = 0; h < kHeadsKv; ++h) {
            memcpy(k_pages[table[b][j / kPageKeys]][h][j % kPageKeys], k_all[b][h][j], sizeof k_all[b][h][j]);
            memcpy(v_pages[table[b][j / kPageKeys]][h][j % kPageKeys], v_all[b][h][j], sizeof v_all[b][h][j]);
        }
    lengths[b] += count;
}

/* Is the row of draft i of sequence b that of attention over the sequence and the drafts on its way? */
static int32_t compare(attile_context *context, int b, int i, int *differs) {
    static float k[kHeadsKv][kMax][kDim], v[kHeadsKv][kMax][kDim], row[kHeadsQ][1][kDim];
    const int64_t before = lengths[b] - kDrafts;
    int64_t len = 0;
    for (int64_t j = 0; j < lengths[b]; ++j) {
        int on_way = j < before;
        for (int draft = i; draft >= 0; draft = parents[b][draft]) on_way |= j == before + draft;
        if (!on_way) continue;
        for (int h = 0; h < kHeadsKv; ++h) {
            memcpy(k[h][len], k_all[b][h][j], sizeof k[h][len]);
            memcpy(v[h][len], v_all[b][h][j], sizeof v[h][len]);
        }
        ++len;
    }
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    attile_tensor_init(&args.q, q[b][0][i], ATTILE_F32, 4, (const int64_t[]){1, kHeadsQ, 1, kDim});
    args.q.stride[1] = (int64_t)kDrafts * kDim;
    attile_tensor_init(&args.k, k, ATTILE_F32, 4, (const int64_t[]){1, kHeadsKv, kMax, kDim});
    attile_tensor_init(&args.v, v, ATTILE_F32, 4, (const int64_t[]){1, kHeadsKv, kMax, kDim});
    args.k.shape[2] = args.v.shape[2] = len;
    attile_tensor_init(&args.o, row, ATTILE_F32, 4, (const int64_t[]){1, kHeadsQ, 1, kDim});
    const int32_t status = attile_attention(context, &args);
    for (int h = 0; h < kHeadsQ && !status; ++h)
        for (int d = 0; d < kDim; ++d) *differs |= !(fabsf(o[b][h][i][d] - row[h][0][d]) <= 1e-5f);
    return status;
}

static int32_t check_drafts(attile_context *context) {
    //! [tree]
    for (int b = 0; b < kBatch; ++b) {
        append(b, kDrafts); /* keys and values of the drafts, behind those of the sequence; lengths[b] counts them */
        for (int i = 0; i < kDrafts; ++i)
            for (int draft = i; draft >= 0; draft = parents[b][draft]) sees[b][0][i][draft] = 1; /* itself, and its way to the root */
    }
    //! [tree]

    //! [call]
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    attile_tensor_init(&args.q, q, ATTILE_F32, 4, (const int64_t[]){kBatch, kHeadsQ, kDrafts, kDim});
    attile_tensor_init(&args.k, k_pages, ATTILE_F32, 4, (const int64_t[]){kPages, kHeadsKv, kPageKeys, kDim});
    attile_tensor_init(&args.v, v_pages, ATTILE_F32, 4, (const int64_t[]){kPages, kHeadsKv, kPageKeys, kDim});
    attile_tensor_init(&args.o, o, ATTILE_F32, 4, (const int64_t[]){kBatch, kHeadsQ, kDrafts, kDim});
    attile_tensor_init(&args.block_table, table, ATTILE_I32, 2, (const int64_t[]){kBatch, kMax / kPageKeys});
    attile_tensor_init(&args.key_lengths, lengths, ATTILE_I32, 1, (const int64_t[]){kBatch});
    attile_tensor_init(&args.tree_mask, sees, ATTILE_U8, 4, (const int64_t[]){kBatch, 1, kDrafts, kDrafts}); /* the same for all heads */
    const int32_t status = attile_attention(context, &args);
    //! [call]
    return status;
}

static void fill(float *x, size_t bytes, int factor) {
    for (size_t i = 0; i < bytes / sizeof *x; ++i) x[i] = (float)((int)(i * (size_t)factor % 101) - 50) / 32;
}

int main(void) {
    fill(&q[0][0][0][0], sizeof q, 37);
    fill(&k_all[0][0][0][0], sizeof k_all, 61);
    fill(&v_all[0][0][0][0], sizeof v_all, 53);
    for (int b = 0; b < kBatch; ++b) {
        const int prompt = lengths[b];
        for (int p = 0; p < kMax / kPageKeys; ++p) table[b][p] = kPages - 1 - (b * (kMax / kPageKeys) + p);
        lengths[b] = 0;
        append(b, prompt);
    }

    attile_context *context = NULL;
    int32_t status = attile_context_create(NULL, &context);
    int differs = 0;
    if (!status) status = check_drafts(context);
    for (int draft = 0; draft < kBatch * kDrafts && !status; ++draft) status = compare(context, draft / kDrafts, draft % kDrafts, &differs);
    char why[512] = "a draft's row is not that of its way to the root";
    if (status) attile_last_error(why, sizeof why);
    attile_context_destroy(context);
    if (status || differs) return fprintf(stderr, "draft_tree: %s\n", why), 1;
    printf("%d drafts behind %d and %d keys, first value %g\n", kDrafts, lengths[0] - kDrafts, lengths[1] - kDrafts, o[0][0][0][0]);
    return 0;
}
