/* SPDX-License-Identifier: Apache-2.0 */
/* A product on four ranks, which are threads of this program: each has some rows of A and some columns of B, and gets its columns of D =
   relu(A B). What it lacks of A comes while it multiplies. cc -std=c11 gemm_ranks.c $(pkg-config --cflags --libs attile) -lpthread */
#include <attile/attile_distributed.h>
#include <pthread.h>
#include <stdio.h>

enum { kRanks = 4, kM = 96, kN = 64, kK = 80, kRows = kM / kRanks, kColumns = kN / kRanks };

/* Small whole numbers, so that sums in any order are the same. */
static float a_at(int i, int k) { return (float)((i * 7 + k * 3) % 5 - 2); }
static float b_at(int k, int j) { return (float)((k * 5 + j * 11) % 7 - 3); }

static int32_t compute(int rank, attile_comm *comm, float *own_d) {
    static float shards_a[kRanks][kRows * kK], shards_b[kRanks][kK * kColumns];
    float *own_a = shards_a[rank], *own_b = shards_b[rank];
    for (int i = 0; i < kRows; ++i) {
        for (int k = 0; k < kK; ++k) own_a[i * kK + k] = a_at(rank * kRows + i, k);
    }
    for (int k = 0; k < kK; ++k) {
        for (int j = 0; j < kColumns; ++j) own_b[k * kColumns + j] = b_at(k, rank * kColumns + j);
    }
    //! [matrices]
    attile_grid column; /* of ranks; no grid is a row of all of them */
    attile_grid_init(&column, sizeof column);
    column.rows = kRanks;
    column.columns = 1;

    attile_distributed_matrix a, b, d;
    attile_distributed_matrix_init(&a, sizeof a);
    a.grid = &column; /* so its rows are cut, evenly since no block is given */
    a.rows = kM;
    a.columns = kK;
    attile_tensor_init(&a.local, own_a, ATTILE_F32, 2, (const int64_t[]){kRows, kK});
    attile_distributed_matrix_init(&b, sizeof b);
    b.rows = kK;
    b.columns = kN;
    attile_tensor_init(&b.local, own_b, ATTILE_F32, 2, (const int64_t[]){kK, kColumns});
    attile_distributed_matrix_init(&d, sizeof d);
    d.rows = kM;
    d.columns = kN;
    attile_tensor_init(&d.local, own_d, ATTILE_F32, 2, (const int64_t[]){kM, kColumns});
    //! [matrices]
    //! [product]
    attile_gemm_distributed_args args;
    attile_gemm_distributed_init(&args, sizeof args);
    args.m = kM;
    args.n = kN;
    args.k = kK;
    args.a = &a;
    args.b = &b;
    args.d = &d;
    args.activation = ATTILE_ACTIVATION_RELU;
    return attile_gemm_distributed(comm, &args);
    //! [product]
}

static int is_right(int rank, const float *own_d) {
    for (int i = 0; i < kM; ++i) {
        for (int j = 0; j < kColumns; ++j) {
            float sum = 0;
            for (int k = 0; k < kK; ++k) sum += a_at(i, k) * b_at(k, rank * kColumns + j);
            if (own_d[i * kColumns + j] != (sum > 0 ? sum : 0)) return 0;
        }
    }
    return 1;
}

static void *run_rank(void *number) {
    static float shards_d[kRanks][kM * kColumns];
    static int32_t statuses[kRanks];
    const int rank = *(const int *)number;
    attile_context *context = NULL;
    attile_comm *comm = NULL;
    int32_t status = attile_context_create(NULL, &context);
    if (!status) {
        attile_comm_options options;
        attile_comm_options_init(&options, sizeof options);
        options.kind = "threads";
        options.rank = rank;
        options.ranks = kRanks;
        options.group = 1;
        status = attile_comm_create(context, &options, &comm);
    }
    if (!status) status = compute(rank, comm, shards_d[rank]);
    char why[512];
    if (status && attile_last_error(why, sizeof why)) fprintf(stderr, "rank %d: %s\n", rank, why);
    if (!status && !is_right(rank, shards_d[rank])) status = 1;
    attile_comm_destroy(comm);
    attile_context_destroy(context);
    statuses[rank] = status;
    return &statuses[rank];
}

int main(void) {
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
    printf("%d ranks, a product of %d x %d x %d: %s\n", kRanks, kM, kN, kK, failed ? "wrong" : "right");
    return failed;
}
