/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One attention, two layouts of memory: the axes of a tensor have fixed meanings, where they lie is a matter of strides.
 *
 *     cc attention_layouts.c $(pkg-config --cflags --libs attile) -o attention_layouts && ./attention_layouts
 *
 * Eight query heads share two key heads, rows see no later keys, and the logarithm of the softmax sums comes out beside the result.
 */
#include <attile/attile.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { kBatch = 2, kHeadsQ = 8, kHeadsKv = 2, kLen = 5, kDim = 4 };
static float q[kBatch * kHeadsQ * kLen * kDim], o[kBatch * kHeadsQ * kLen * kDim];
static float k[kBatch * kHeadsKv * kLen * kDim], v[kBatch * kHeadsKv * kLen * kDim];
static float q_blhd[sizeof q / sizeof *q], o_blhd[sizeof o / sizeof *o], lse[kBatch * kHeadsQ * kLen];

static int32_t dense(attile_context *context) {
    //! [dense]
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    attile_tensor_init(&args.q, q, ATTILE_F32, 4, (const int64_t[]){kBatch, kHeadsQ, kLen, kDim});
    attile_tensor_init(&args.k, k, ATTILE_F32, 4, (const int64_t[]){kBatch, kHeadsKv, kLen, kDim});
    attile_tensor_init(&args.v, v, ATTILE_F32, 4, (const int64_t[]){kBatch, kHeadsKv, kLen, kDim});
    attile_tensor_init(&args.o, o, ATTILE_F32, 4, (const int64_t[]){kBatch, kHeadsQ, kLen, kDim});
    attile_tensor_init(&args.lse, lse, ATTILE_F32, 3, (const int64_t[]){kBatch, kHeadsQ, kLen});
    args.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    int32_t status = attile_attention(context, &args);
    //! [dense]
    if (status) return status;

    //! [strides]
    args.q.data = q_blhd; /* stored [batch, length, heads, head_dim] */
    args.q.stride[0] = kLen * kHeadsQ * kDim;
    args.q.stride[1] = kDim;
    args.q.stride[2] = kHeadsQ * kDim;
    memcpy(args.o.stride, args.q.stride, sizeof args.o.stride);
    args.o.data = o_blhd;
    status = attile_attention(context, &args);
    //! [strides]
    return status;
}

static int64_t blhd(int64_t i) { /* where element i of a dense [batch, heads, length, head_dim] array lies in the other layout */
    const int64_t d = i % kDim, l = i / kDim % kLen, h = i / kDim / kLen % kHeadsQ, b = i / kDim / kLen / kHeadsQ;
    return ((b * kLen + l) * kHeadsQ + h) * kDim + d;
}

int main(void) {
    const int64_t count = sizeof q / sizeof *q;
    for (int64_t i = 0; i < count; ++i) q[i] = q_blhd[blhd(i)] = (float)(i * 37 % 101 - 50) / 64;
    for (int64_t i = 0; i < (int64_t)(sizeof k / sizeof *k); ++i) k[i] = (float)(i * 61 % 97 - 48) / 64;
    for (int64_t i = 0; i < (int64_t)(sizeof v / sizeof *v); ++i) v[i] = (float)(i * 53 % 89 - 44) / 64;

    attile_context *context = NULL;
    int32_t status = attile_context_create(NULL, &context);
    if (!status) status = dense(context);
    //! [error]
    if (status) {
        char why[512];
        attile_last_error(why, sizeof why); /* the argument, its value, what was expected */
        fprintf(stderr, "%s: %s\n", attile_status_name(status), why);
    }
    //! [error]
    attile_context_destroy(context);
    if (status) return 1;
    for (int64_t i = 0; i < count; ++i) /* the same result, up to rounding where another kernel serves the other layout */
        if (!(fabsf(o[i] - o_blhd[blhd(i)]) <= 1e-6f))
            return fprintf(stderr, "attention_layouts: the layouts differ at %lld\n", (long long)i), 1;
    printf("first row %g %g %g %g, log-sum-exp %g\n", o[0], o[1], o[2], o[3], lse[0]);
    return 0;
}
