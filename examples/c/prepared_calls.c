/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One layer after another: the same product with other weights each time. It is validated and planned once.
 *
 *     cc prepared_calls.c $(pkg-config --cflags --libs attile) -o prepared_calls && ./prepared_calls
 *
 * Prints the largest number that three layers leave; the weights shift elements by one column, so that it is known.
 */
#include <attile/attile.h>
#include <stdio.h>

enum { ROWS = 4, WIDTH = 64, LAYERS = 3 };
static float weights[LAYERS][WIDTH * WIDTH], x[ROWS * WIDTH], y[ROWS * WIDTH];

static int32_t run_layers(attile_context *context) {
    const int64_t rows[2] = {ROWS, WIDTH}, square[2] = {WIDTH, WIDTH};
    //! [prepare]
    attile_gemm_args args;
    attile_gemm_init(&args, sizeof args);
    attile_tensor_init(&args.a, x, ATTILE_F32, 2, rows);
    attile_tensor_init(&args.b, weights[0], ATTILE_F32, 2, square);
    attile_tensor_init(&args.d, y, ATTILE_F32, 2, rows);
    attile_prepared *layer = NULL;
    int32_t status = attile_gemm_prepare(context, &args, &layer);

    attile_gemm_pointers at; /* What stays NULL is where it was prepared. */
    attile_gemm_pointers_init(&at, sizeof at);
    for (int i = 0; i < LAYERS && !status; ++i) {
        at.a = i % 2 ? y : x;
        at.b = weights[i];
        at.d = i % 2 ? x : y;
        status = attile_gemm_run(layer, &at);
    }
    attile_prepared_destroy(layer);
    //! [prepare]
    if (!status) status = attile_synchronize(context, NULL);
    return status;
}

int main(void) {
    char why[1024];
    for (int i = 0; i < LAYERS; ++i)
        for (int k = 0; k < WIDTH; ++k) weights[i][k * WIDTH + (k + 1) % WIDTH] = 1;
    for (int k = 0; k < ROWS * WIDTH; ++k) x[k] = (float)(k % WIDTH);

    attile_context *context = NULL;
    int32_t status = attile_context_create(NULL, &context);
    if (!status) status = run_layers(context);
    if (status && attile_last_error(why, sizeof why)) fprintf(stderr, "prepared_calls: %s\n", why);
    attile_context_destroy(context);
    if (status) return 1;

    /* The last layer's result is in y: three columns on. */
    for (int k = 0; k < ROWS * WIDTH; ++k)
        if (y[k] != (float)((k % WIDTH + WIDTH - LAYERS) % WIDTH)) return fprintf(stderr, "prepared_calls: wrong result\n"), 1;
    printf("%d layers by one prepared call\n", LAYERS);
    return 0;
}
