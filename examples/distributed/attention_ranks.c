/* SPDX-License-Identifier: Apache-2.0 */
/* One sequence on four ranks, which are threads of this program: each has a quarter of the rows and keys, in two chunks that balance a
   causal mask. Results and gradients are compared with those of one call. cc -std=c11 attention_ranks.c $(pkg-config --cflags --libs
   attile) -lm -lpthread */
#include <attile/attile_distributed.h>
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { kRanks = 4, kLength = 64, kHeads = 4, kHeadsKv = 2, kDim = 16, kShard = kLength / kRanks };

/* Whole sequences, [length, heads, dim]. */
static float q[kLength][kHeads][kDim], k[kLength][kHeadsKv][kDim], v[kLength][kHeadsKv][kDim], dout[kLength][kHeads][kDim];

/* What comes out of one call, and of the ranks. */
typedef struct results {
    float o[kLength][kHeads][kDim], dq[kLength][kHeads][kDim], dk[kLength][kHeadsKv][kDim], dv[kLength][kHeadsKv][kDim];
    float lse[kHeads][kLength];
} results;
static results expected, result;

/* Memory in the order [length, heads, dim] as attention's axes [1, heads, length, dim]. */
static attile_tensor tensor(void *data, int64_t length, int64_t heads) {
    attile_tensor made;
    attile_tensor_init(&made, data, ATTILE_F32, 4, (const int64_t[]){1, heads, length, kDim});
    made.stride[1] = kDim;
    made.stride[2] = heads * kDim;
    return made;
}

static attile_tensor lines(float *data, int64_t length) {
    attile_tensor made;
    attile_tensor_init(&made, data, ATTILE_F32, 3, (const int64_t[]){1, kHeads, length});
    return made;
}

/* A rank's rows in its own memory: part after part, as attile_shard_part() says. `back`: from there to the whole. */
static void move_rows(int rank, float *whole, float *shard, size_t row, int back) {
    for (int part = 0; part < 2; ++part) {
        int64_t first, count, stride;
        attile_shard_part(ATTILE_SHARDS_ZIGZAG, kLength, rank, kRanks, part, &first, &count, &stride);
        for (int64_t i = 0; i < count; ++i, shard += row) {
            float *place = whole + (size_t)(first + i * stride) * row;
            memcpy(back ? place : shard, back ? shard : place, row * sizeof(float));
        }
    }
}

static int32_t compute(int rank, attile_context *context) {
    static float shards[kRanks][8][kShard * kHeads * kDim], lse[kRanks][kHeads * kShard];
    float(*own)[kShard * kHeads * kDim] = shards[rank];
    move_rows(rank, &q[0][0][0], own[0], kHeads * kDim, 0);
    move_rows(rank, &k[0][0][0], own[1], kHeadsKv * kDim, 0);
    move_rows(rank, &v[0][0][0], own[2], kHeadsKv * kDim, 0);
    move_rows(rank, &dout[0][0][0], own[4], kHeads * kDim, 0);
    //! [join]
    attile_comm_options options;
    attile_comm_options_init(&options, sizeof options);
    options.kind = "threads";
    options.rank = rank;
    options.ranks = kRanks;
    options.group = 1; /* the same number on every rank */
    attile_comm *comm;
    int32_t status = attile_comm_create(context, &options, &comm); /* waits for the others */
    if (status) return status;
    //! [join]
    //! [call]
    attile_attention_args local; /* as a call of one rank, with the rows and keys of this one */
    attile_attention_init(&local, sizeof local);
    local.q = tensor(own[0], kShard, kHeads);
    local.k = tensor(own[1], kShard, kHeadsKv);
    local.v = tensor(own[2], kShard, kHeadsKv);
    local.o = tensor(own[3], kShard, kHeads);
    local.lse = lines(lse[rank], kShard);     /* gradients want it */
    local.mask = ATTILE_MASK_CAUSAL_TOP_LEFT; /* by positions in the whole sequence */

    attile_attention_distributed_args args;
    attile_attention_distributed_init(&args, sizeof args);
    args.local = &local;
    args.layout = ATTILE_SHARDS_ZIGZAG;
    args.method = ATTILE_METHOD_RING;
    status = attile_attention_distributed(comm, &args);
    //! [call]
    if (status) goto end;
    //! [gradients]
    attile_attention_backward_args gradients; /* as a call of one rank, likewise */
    attile_attention_backward_init(&gradients, sizeof gradients);
    gradients.forward = &local; /* with the rows of o and lse that the call above gave */
    gradients.dout = tensor(own[4], kShard, kHeads);
    gradients.dq = tensor(own[5], kShard, kHeads);
    gradients.dk = tensor(own[6], kShard, kHeadsKv); /* of this rank's keys, summed over the rows of all */
    gradients.dv = tensor(own[7], kShard, kHeadsKv);

    attile_attention_backward_distributed_args backward;
    attile_attention_backward_distributed_init(&backward, sizeof backward);
    backward.local = &gradients;
    backward.layout = ATTILE_SHARDS_ZIGZAG;
    status = attile_attention_backward_distributed(comm, &backward);
    //! [gradients]
    if (status) goto end;
    move_rows(rank, &result.o[0][0][0], own[3], kHeads * kDim, 1);
    move_rows(rank, &result.dq[0][0][0], own[5], kHeads * kDim, 1);
    move_rows(rank, &result.dk[0][0][0], own[6], kHeadsKv * kDim, 1);
    move_rows(rank, &result.dv[0][0][0], own[7], kHeadsKv * kDim, 1);
end:
    attile_comm_destroy(comm);
    return status;
}

static void *run_rank(void *number) {
    const int rank = *(const int *)number;
    static int32_t statuses[kRanks];
    attile_context *context;
    int32_t status = attile_context_create(NULL, &context);
    if (!status) {
        status = compute(rank, context);
        char why[512];
        if (status && attile_last_error(why, sizeof why)) fprintf(stderr, "rank %d: %s\n", rank, why);
        attile_context_destroy(context);
    }
    statuses[rank] = status;
    return &statuses[rank];
}

static void fill(float *values, size_t count, unsigned seed) {
    for (size_t i = 0; i < count; ++i) {
        seed = seed * 1664525U + 1013904223U;
        values[i] = (float)(seed >> 8) / 8388608.0F - 1.0F;
    }
}

int main(void) {
    fill(&q[0][0][0], sizeof q / sizeof(float), 1);
    fill(&k[0][0][0], sizeof k / sizeof(float), 2);
    fill(&v[0][0][0], sizeof v / sizeof(float), 3);
    fill(&dout[0][0][0], sizeof dout / sizeof(float), 4);

    attile_context *context;
    if (attile_context_create(NULL, &context)) return 1;
    attile_attention_args whole;
    attile_attention_init(&whole, sizeof whole);
    whole.q = tensor(q, kLength, kHeads);
    whole.k = tensor(k, kLength, kHeadsKv);
    whole.v = tensor(v, kLength, kHeadsKv);
    whole.o = tensor(expected.o, kLength, kHeads);
    whole.lse = lines(&expected.lse[0][0], kLength);
    whole.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
    if (attile_attention(context, &whole)) return 1;
    attile_attention_backward_args gradients;
    attile_attention_backward_init(&gradients, sizeof gradients);
    gradients.forward = &whole;
    gradients.dout = tensor(dout, kLength, kHeads);
    gradients.dq = tensor(expected.dq, kLength, kHeads);
    gradients.dk = tensor(expected.dk, kLength, kHeadsKv);
    gradients.dv = tensor(expected.dv, kLength, kHeadsKv);
    if (attile_attention_backward(context, &gradients)) return 1;
    attile_context_destroy(context);

    pthread_t threads[kRanks];
    int numbers[kRanks], failed = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
        numbers[rank] = rank;
        if (pthread_create(&threads[rank], NULL, run_rank, &numbers[rank])) return 1;
    }
    for (int rank = 0; rank < kRanks; ++rank) {
        void *status;
        pthread_join(threads[rank], &status);
        failed |= *(int32_t *)status != ATTILE_OK;
    }
    /* o, dq, dk and dv; lse stands behind them. */
    const float *const got = &result.o[0][0][0], *const want = &expected.o[0][0][0];
    float worst = 0;
    for (size_t i = 0; i < offsetof(results, lse) / sizeof(float); ++i) {
        const float error = fabsf(got[i] - want[i]);
        if (!(error <= worst)) worst = error;
    }
    printf("%d ranks, %d positions: the largest difference from one call is %s 1e-5\n", kRanks, kLength,
           worst <= 1e-5F ? "below" : "ABOVE");
    return failed || !(worst <= 1e-5F);
}
