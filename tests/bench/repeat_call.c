/* SPDX-License-Identifier: Apache-2.0 */
/* Makes one call of the library many times, for python_calls.py: what it takes without Python. */
#include <attile/attile.h>
#include <time.h>

/* Any operation of attile.h: they differ in the struct alone. */
typedef int32_t call(attile_context *context, const void *args);
typedef int32_t query(attile_context *context, const void *args, attile_support *support);

static double since(const struct timespec *start) {
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    return (double)(end.tv_sec - start->tv_sec) + 1e-9 * (double)(end.tv_nsec - start->tv_nsec);
}

/* Seconds that `count` calls took; negative if one failed. */
ATTILE_API double repeat_call(call *operation, attile_context *context, const void *args, int64_t count);
double repeat_call(call *operation, attile_context *context, const void *args, int64_t count) {
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int64_t i = 0; i < count; i++)
        if (operation(context, args) != ATTILE_OK) return -1;
    return since(&start);
}

/* The same of a query. */
ATTILE_API double repeat_query(query *operation, attile_context *context, const void *args, int64_t count);
double repeat_query(query *operation, attile_context *context, const void *args, int64_t count) {
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int64_t i = 0; i < count; i++) {
        attile_support support = {.struct_size = sizeof support};
        if (operation(context, args, &support) != ATTILE_OK) return -1;
    }
    return since(&start);
}
