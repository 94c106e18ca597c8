/* SPDX-License-Identifier: Apache-2.0 */
/* One sequence spread over the ranks of MPI: each has every P-th row and key, and compares its rows of the result with those of one call.
   mpicc -std=c11 attention_mpi.c $(pkg-config --cflags --libs attile) -lm && mpiexec -n 4 ./a.out */
#include <attile/attile_distributed.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { kLength = 64, kHeads = 4, kHeadsKv = 2, kDim = 16 };

/* Whole sequences, [length, heads, dim], the result of one call, and this rank's rows. */
static float q[kLength][kHeads][kDim], k[kLength][kHeadsKv][kDim], v[kLength][kHeadsKv][kDim], expected[kLength][kHeads][kDim];
static float own_q[kLength][kHeads][kDim], own_k[kLength][kHeadsKv][kDim], own_v[kLength][kHeadsKv][kDim], own_o[kLength][kHeads][kDim];

/* Memory in the order [length, heads, dim] as attention's axes [1, heads, length, dim]. */
static attile_tensor tensor(void *data, int64_t length, int64_t heads) {
    attile_tensor made;
    attile_tensor_init(&made, data, ATTILE_F32, 4, (const int64_t[]){1, heads, length, kDim});
    made.stride[1] = kDim;
    made.stride[2] = heads * kDim;
    return made;
}

static attile_attention_args causal(attile_tensor queries, attile_tensor keys, attile_tensor values, attile_tensor result) {
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    args.q = queries;
    args.k = keys;
    args.v = values;
    args.o = result;
    args.mask = ATTILE_MASK_CAUSAL_TOP_LEFT; /* by positions in the whole sequence */
    return args;
}

static void fill(float *values, size_t count, unsigned seed) {
    for (size_t i = 0; i < count; ++i) {
        seed = seed * 1664525U + 1013904223U;
        values[i] = (float)(seed >> 8) / 8388608.0F - 1.0F;
    }
}

/* The largest difference from one call; a status and a sentence where there is none. */
static int32_t compute(attile_context *context, attile_comm *comm, float *worst) {
    attile_comm_info info;
    attile_comm_info_init(&info, sizeof info);
    int32_t status = attile_comm_get_info(comm, &info);
    if (status) return status;
    int64_t first, rows, stride;
    status = attile_shard_part(ATTILE_SHARDS_STRIPED, kLength, info.rank, info.ranks, 0, &first, &rows, &stride);
    if (status) return status;
    for (int64_t i = 0; i < rows; ++i) {
        memcpy(own_q[i], q[first + i * stride], sizeof q[0]);
        memcpy(own_k[i], k[first + i * stride], sizeof k[0]);
        memcpy(own_v[i], v[first + i * stride], sizeof v[0]);
    }
    const attile_attention_args local =
        causal(tensor(own_q, rows, kHeads), tensor(own_k, rows, kHeadsKv), tensor(own_v, rows, kHeadsKv), tensor(own_o, rows, kHeads));
    attile_attention_distributed_args args;
    attile_attention_distributed_init(&args, sizeof args);
    args.local = &local;
    args.layout = ATTILE_SHARDS_STRIPED;
    args.len_q = args.len_k = kLength;
    status = attile_attention_distributed(comm, &args);
    if (status) return status;

    const attile_attention_args whole =
        causal(tensor(q, kLength, kHeads), tensor(k, kLength, kHeadsKv), tensor(v, kLength, kHeadsKv), tensor(expected, kLength, kHeads));
    status = attile_attention(context, &whole);
    for (int64_t i = 0; i < rows; ++i) {
        for (int d = 0; d < kHeads * kDim; ++d) {
            const float error = fabsf((&own_o[i][0][0])[d] - (&expected[first + i * stride][0][0])[d]);
            if (!(error <= *worst)) *worst = error;
        }
    }
    return status;
}

int main(int argc, char **argv) {
    //! [join]
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level); /* only this thread uses the communicator */

    attile_context *context;
    int32_t status = attile_context_create(NULL, &context);
    attile_comm *comm = NULL;
    if (!status) {
        attile_comm_options options;
        attile_comm_options_init(&options, sizeof options);
        options.kind = "mpi";                                  /* rank and ranks are MPI's */
        options.communicator = MPI_Comm_c2f(MPI_COMM_WORLD);   /* or any other */
        status = attile_comm_create(context, &options, &comm); /* waits for the others */
    }
    //! [join]
    fill(&q[0][0][0], sizeof q / sizeof(float), 1);
    fill(&k[0][0][0], sizeof k / sizeof(float), 2);
    fill(&v[0][0][0], sizeof v / sizeof(float), 3);
    float worst = 0;
    if (!status) status = compute(context, comm, &worst);
    char why[512];
    if (status && attile_last_error(why, sizeof why)) fprintf(stderr, "%s\n", why);
    //! [leave]
    attile_comm_destroy(comm); /* before MPI ends */
    attile_context_destroy(context);
    //! [leave]

    int failed = status || !(worst <= 1e-5F), any, ranks, rank;
    MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("%d ranks, %d positions: the largest difference from one call is %s 1e-5\n", ranks, kLength, any ? "ABOVE" : "below");
    MPI_Finalize();
    return any;
}
