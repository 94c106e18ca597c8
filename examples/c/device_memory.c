/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data that stays on the device: allocate there, copy in, compute on a stream, copy out, wait once.
 *
 *     cc device_memory.c $(pkg-config --cflags --libs attile) -o device_memory && ./device_memory
 *
 * On a GPU the calls return at once and the work follows in the order of the stream. On a CPU backend device memory is ordinary memory and
 * a stream does nothing, so the same program runs there.
 */
#include <attile/attile.h>
#include <math.h>
#include <stdio.h>

enum { kHeads = 4, kLen = 32, kDim = 16, kCount = kHeads * kLen * kDim };

static int32_t compute(attile_context *context, void *stream, void *device, void *workspace, int64_t workspace_bytes) {
    //! [async]
    const int64_t shape[4] = {1, kHeads, kLen, kDim};
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    attile_tensor_init(&args.q, device, ATTILE_F32, 4, shape); /* queries, keys and values at once */
    args.k = args.v = args.q;
    attile_tensor_init(&args.o, (float *)device + kCount, ATTILE_F32, 4, shape);
    args.stream = stream;
    args.workspace = workspace; /* without one, memory comes from a pool, in the stream's order */
    args.workspace_bytes = workspace_bytes;
    args.flags = ATTILE_FLAG_NO_ALLOC; /* rather fail than allocate: for calls that are captured into a graph */
    return attile_attention(context, &args);
    //! [async]
}

/* How much scratch memory the call wants: asked beforehand, with tensors that need no data. */
static int32_t ask(attile_context *context, int64_t *workspace_bytes) {
    //! [workspace]
    const int64_t shape[4] = {1, kHeads, kLen, kDim};
    attile_attention_args args;
    attile_support support;
    attile_attention_init(&args, sizeof args);
    attile_tensor_init(&args.q, NULL, ATTILE_F32, 4, shape);
    args.k = args.v = args.o = args.q;
    attile_support_init(&support, sizeof support);
    const int32_t status = attile_attention_query(context, &args, &support);
    *workspace_bytes = support.workspace_bytes;
    //! [workspace]
    return status;
}

int main(void) {
    static float x[kCount], o[kCount];
    for (int i = 0; i < kCount; ++i) x[i] = (float)(i * 37 % 101 - 50) / 64;

    attile_context *context = NULL;
    void *stream = NULL, *device = NULL, *workspace = NULL;
    int64_t workspace_bytes = 0;
    int32_t status = attile_context_create(NULL, &context);
    if (!status) status = ask(context, &workspace_bytes);
    //! [memory]
    if (!status) status = attile_stream_create(context, &stream);
    if (!status) status = attile_alloc(context, ATTILE_MEMORY_DEVICE, sizeof x + sizeof o, &device);
    if (!status) status = attile_alloc(context, ATTILE_MEMORY_DEVICE, workspace_bytes, &workspace);
    if (!status) status = attile_copy(context, device, x, sizeof x, stream);
    if (!status) status = compute(context, stream, device, workspace, workspace_bytes);
    if (!status) status = attile_copy(context, o, (float *)device + kCount, sizeof o, stream);
    if (!status) status = attile_synchronize(context, stream);
    //! [memory]
    char why[512];
    if (status && attile_last_error(why, sizeof why)) fprintf(stderr, "device_memory: %s\n", why);
    attile_free(context, workspace);
    attile_free(context, device);
    attile_stream_destroy(context, stream);
    attile_context_destroy(context);
    if (status) return 1;

    /* Every row is a mean of rows of x, so it lies between their least and their greatest. */
    for (int i = 0; i < kCount; ++i)
        if (!(fabsf(o[i]) <= 50.0f / 64)) return fprintf(stderr, "device_memory: wrong result\n"), 1;
    printf("first value %g\n", o[0]);
    return 0;
}
