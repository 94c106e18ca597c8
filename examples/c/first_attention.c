/* SPDX-License-Identifier: Apache-2.0 */
#include <attile/attile.h>
#include <stdio.h>

int main(int argc, char **argv) {
    char why[512];
    float x[2 * 6 * 8], o[2 * 6 * 8]; /* 2 heads, 6 rows, head dimension 8; the same for q, k and v */
    for (int i = 0; i < 96; ++i) x[i] = (float)(i * 37 % 101 - 50) / 64;
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    attile_tensor_init(&args.q, x, ATTILE_F32, 4, (const int64_t[]){1, 2, 6, 8});
    args.k = args.v = args.o = args.q, args.o.data = o;
    args.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    args.v.shape[2] -= argc - 1; /* with an argument: a value too few, to see what an error looks like */
    attile_context *context = NULL;
    if (attile_context_create(NULL, &context) || attile_attention(context, &args))
        return attile_last_error(why, sizeof why), fprintf(stderr, "%s: %s\n", argv[0], why), 1;
    for (int i = 0; i < 96; ++i) printf("%.9g\n", o[i]);
    attile_context_destroy(context);
}
