/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choosing where to run, and finding out why it is not where you thought.
 *
 *     cc choose_backend.c $(pkg-config --cflags --libs attile) -o choose_backend
 *     ./choose_backend                    what ATTILE_BACKEND says, else the best that can run here
 *     ./choose_backend cuda,cpu           the first of a list that can
 *     ./choose_backend cuda:1             the second device of one backend, strictly: nothing else will do
 *
 * Prints the device, asks whether a product would run there at all, in which data types and by which kernel, and what was tried before.
 */
#include <attile/attile.h>
#include <stdio.h>
#include <stdlib.h>

//! [report]
/* Texts of any length are read in two calls: one for the size, one for the text. */
static void print_report(FILE *to) {
    const int64_t size = attile_backend_report(NULL, 0);
    char *text = malloc((size_t)size);
    if (!text) return;
    attile_backend_report(text, size);
    fprintf(to, "backends tried:\n%s", text);
    free(text);
}
//! [report]

/* A query reads no data, so the tensors need none; it answers what the call would do. */
static int print_support(attile_context *context, const char *name, int32_t dtype) {
    static const char *const levels[] = {"not supported", "emulated", "native"};
    //! [query]
    const int64_t shape[2] = {1024, 1024};
    attile_gemm_args args;
    attile_support support;
    attile_gemm_init(&args, sizeof args);
    attile_tensor_init(&args.a, NULL, dtype, 2, shape);
    args.b = args.d = args.a;
    attile_support_init(&support, sizeof support);
    if (attile_gemm_query(context, &args, &support)) return 1;
    //! [query]
    /* A level that is newer than this program would have no name here. */
    const char *level = support.level >= 0 && support.level <= 2 ? levels[support.level] : "supported";
    printf("  %-4s %-13s %s\n", name, level, support.level == ATTILE_SUPPORT_NONE ? support.text : support.kernel);
    return 0;
}

int main(int argc, char **argv) {
    //! [choose]
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = argc > 1 ? argv[1] : NULL; /* NULL: ATTILE_BACKEND */

    attile_context *context = NULL;
    const int32_t status = attile_context_create(&options, &context);
    if (status) {
        char why[1024];
        attile_last_error(why, sizeof why);
        fprintf(stderr, "choose_backend: %s: %s\n", attile_status_name(status), why);
        print_report(stderr);
        return 1;
    }
    //! [choose]

    attile_context_info info;
    attile_context_info_init(&info, sizeof info);
    int failed = attile_context_get_info(context, &info) != 0;
    if (!failed) {
        printf("backend: %s %s\n", info.backend, info.backend_version);
        printf("device:  %s%s%s\n", info.device_name, info.arch[0] ? ", " : "", info.arch);
        printf("product of 1024x1024 matrices:\n");
        failed = print_support(context, "f32", ATTILE_F32) || print_support(context, "f64", ATTILE_F64) ||
                 print_support(context, "f16", ATTILE_F16) || print_support(context, "bf16", ATTILE_BF16);
    }
    if (failed) {
        char why[1024];
        attile_last_error(why, sizeof why);
        fprintf(stderr, "choose_backend: %s\n", why);
    } else {
        print_report(stdout);
    }
    attile_context_destroy(context);
    return failed;
}
