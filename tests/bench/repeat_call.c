/* SPDX-License-Identifier: Apache-2.0 */
/* Makes one call of the library many times, for python_calls.py: what it takes without Python. */
#include <attile/attile.h>
#include <time.h>

/* Any operation of attile.h: they differ in the struct alone. */
typedef int32_t call(attile_context *context, const void *args);

/* Seconds that `count` calls took; negative if one failed. */
ATTILE_API double repeat_call(call *operation, attile_context *context, const void *args, int64_t count);
double repeat_call(call *operation, attile_context *context, const void *args, int64_t count) {
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int64_t i = 0; i < count; i++)
        if (operation(context, args) != ATTILE_OK) return -1;
    clock_gettime(CLOCK_MONOTONIC, &end);
    return (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
}
