/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention of a file: reads Q, K and V, writes softmax(Q K^T / sqrt(d)) V.
 *
 *     cc attention_file.c $(pkg-config --cflags --libs attile) -o attention_file
 *     ./attention_file in.bin out.bin                          on whatever device is there
 *     ATTILE_BACKEND=reference ./attention_file in.bin out.bin on a backend of your choice
 *
 * The input, all little-endian: int32 B, N, d; then, for each of the B batches, Q, K and V of N*d float32 each. The output is B*N*d
 * float32. `attile generate` makes such inputs.
 *
 * What to look at: how three matrices that lie interleaved in one buffer become tensors, in compute(). The rest is reading and writing.
 */
#include <attile/attile.h>
#include <stdio.h>
#include <stdlib.h>

/* A failed call left a sentence that says which argument was wrong, or why no backend was found. */
static int attile_failed(void) {
    char why[1024];
    attile_last_error(why, sizeof why);
    fprintf(stderr, "attention_file: %s\n", why);
    return 1;
}

static int failed(const char *what, const char *path) {
    fprintf(stderr, "attention_file: %s: %s\n", path, what);
    return 1;
}

/* Attention of `batch` problems of `len` rows: input holds Q, K, V of the first, then of the second, and so on. */
static int compute(float *input, float *output, int64_t batch, int64_t len, int64_t head_dim) {
    const int64_t shape[4] = {batch, 1, len, head_dim}; /* one head */
    const int64_t matrix = len * head_dim;              /* floats of one Q, K or V */
    attile_context *context = NULL;
    attile_attention_args args;

    /* NULL: the backend that ATTILE_BACKEND names, or the best that can run here. */
    if (attile_context_create(NULL, &context)) return attile_failed();

    //! [compute]
    attile_attention_init(&args, sizeof args); /* zero is the default of everything, e.g. scale = 1/sqrt(d) and no mask */
    attile_tensor_init(&args.q, input, ATTILE_F32, 4, shape);
    attile_tensor_init(&args.k, input + matrix, ATTILE_F32, 4, shape);
    attile_tensor_init(&args.v, input + 2 * matrix, ATTILE_F32, 4, shape);
    attile_tensor_init(&args.o, output, ATTILE_F32, 4, shape);
    /* From one batch's Q to the next one's there are three matrices; nothing has to be copied together first. */
    args.q.stride[0] = args.k.stride[0] = args.v.stride[0] = 3 * matrix;

    /* The memory is the program's own, so the result is in place when the call returns, whatever device computed it. */
    const int32_t status = attile_attention(context, &args);
    //! [compute]
    if (status) attile_failed();
    attile_context_destroy(context);
    return status != 0;
}

int main(int argc, char **argv) {
    int32_t header[3];
    if (argc != 3) {
        fprintf(stderr, "usage: attention_file INPUT OUTPUT\n");
        return 2;
    }

    FILE *file = fopen(argv[1], "rb");
    if (!file) return failed("cannot be opened", argv[1]);
    if (fread(header, sizeof header[0], 3, file) != 3) return failed("is too short for an attention file", argv[1]);
    const int64_t batch = header[0], len = header[1], head_dim = header[2];
    if (batch < 1 || len < 1 || head_dim < 1) return failed("B, N and d must be at least 1", argv[1]);
    if (len > INT64_MAX / 12 / batch / head_dim) return failed("B*N*d is too large", argv[1]);

    const size_t count = (size_t)(batch * len * head_dim); /* floats of the result */
    float *input = malloc(3 * count * sizeof *input), *output = malloc(count * sizeof *output);
    if (!input || !output) return failed("does not fit in memory", argv[1]);
    if (fread(input, sizeof *input, 3 * count, file) != 3 * count) return failed("is truncated", argv[1]);
    if (fgetc(file) != EOF) return failed("has bytes after its end", argv[1]);
    fclose(file);

    if (compute(input, output, batch, len, head_dim)) return 1; /* nothing has been written yet */

    file = fopen(argv[2], "wb");
    if (!file) return failed("cannot be opened for writing", argv[2]);
    const size_t written = fwrite(output, sizeof *output, count, file);
    if (fclose(file) != 0 || written != count) {
        remove(argv[2]); /* better none than half a result */
        return failed("cannot be written", argv[2]);
    }
    printf("%s: B = %lld, N = %lld, d = %lld; first value %g\n", argv[2], (long long)batch, (long long)len, (long long)head_dim, output[0]);
    free(input);
    free(output);
    return 0;
}
