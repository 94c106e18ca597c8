/* SPDX-License-Identifier: Apache-2.0 */
/* A whole backend, "tiny": matrix products of float32 by plain loops, in ordinary memory. The guide "Write a backend" explains it.
 *     mkdir plugins && cc -shared -fPIC tiny_backend.c $(pkg-config --cflags attile) -o plugins/libattile_backend_tiny.so
 *     ATTILE_BACKEND_PATH=$PWD/plugins ATTILE_BACKEND=tiny attile info */
/*! [head] */
#include <attile/attile_backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(x, i, j, r, c) ((float *)(x).data)[(i) * (x).stride[0] + (j) * (x).stride[1] + (r) * (x).stride[2] + (c) * (x).stride[3]]
static const attile_host_v1 *host; /* lives as long as the process */
/*! [head] */

/*! [device] */
static int32_t info(void *state, attile_context_info *to) {
    snprintf(to->backend, sizeof to->backend, "tiny");
    snprintf(to->device_name, sizeof to->device_name, "plain loops");
    to->device_type = ATTILE_DEVICE_CPU;
    return ATTILE_OK;
}
static int32_t synchronize(void *state, void *stream) { return ATTILE_OK; }
static const attile_device_interface device = {sizeof device, 1, info, NULL, NULL, synchronize}; /* NULL: it has no streams */

static int32_t alloc(void *state, int32_t kind, int64_t bytes, void **p) {
    return posix_memalign(p, 256, (size_t)bytes) ? ATTILE_ERROR_OUT_OF_HOST_MEMORY : ATTILE_OK;
}
static int32_t release(void *state, int32_t kind, void *p) { return free(p), ATTILE_OK; }
static int32_t copy(void *state, void *to, const void *from, int64_t bytes, void *stream) {
    return memcpy(to, from, (size_t)bytes), ATTILE_OK;
}
static const attile_memory_interface memory = {sizeof memory, 1, alloc, release, copy, NULL, NULL};
/*! [device] */

/*! [gemm] */
static int32_t check(const attile_gemm_problem *p) { /* query and run must agree, so both ask this */
    if (p->compute == ATTILE_F32 && p->a.dtype == ATTILE_F32 && p->d.dtype == ATTILE_F32 && !p->c.dtype && !p->bias.dtype && !p->activation)
        return ATTILE_OK;
    host->set_error("tiny multiplies float32 matrices, without C, bias or activation");
    return ATTILE_ERROR_UNSUPPORTED_FEATURE;
}
static int32_t query(void *state, const attile_gemm_problem *p, attile_support *support) {
    snprintf(support->kernel, sizeof support->kernel, "tiny_gemm");
    support->level = ATTILE_SUPPORT_NATIVE;
    return check(p); /* a code of block 2xxx means: not supported */
}
static int32_t run(void *state, const attile_gemm_problem *p) {
    if (check(p)) return ATTILE_ERROR_UNSUPPORTED_FEATURE;
    for (int64_t i = 0; i < p->batch[0]; ++i)
        for (int64_t j = 0; j < p->batch[1]; ++j)
            for (int64_t at = 0; at < p->m * p->n; ++at) {
                double sum = 0;
                for (int64_t k = 0; k < p->k; ++k) sum += AT(p->a, i, j, at / p->n, k) * AT(p->b, i, j, k, at % p->n);
                AT(p->d, i, j, at / p->n, at % p->n) = (float)(p->alpha * sum);
            }
    return ATTILE_OK;
}
static const attile_gemm_interface gemm = {sizeof gemm, 1, query, run};
/*! [gemm] */

/*! [root] */
static int32_t probe(int32_t number, attile_backend_probe *found) {
    found->device_count = 1;
    snprintf(found->device_name, sizeof found->device_name, "plain loops");
    if (number == 0) return ATTILE_OK;
    return host->set_error("there is one device, 0"), ATTILE_ERROR_BACKEND_REFUSED;
}
static int32_t create(const attile_backend_options *options, void **state) { return *state = NULL, ATTILE_OK; }
static void destroy(void *state) {}
static const void *const tables[] = {
    [ATTILE_INTERFACE_DEVICE] = &device, [ATTILE_INTERFACE_MEMORY] = &memory, [ATTILE_INTERFACE_GEMM] = &gemm};
static const void *query_interface(uint32_t id, uint32_t version) { return id <= ATTILE_INTERFACE_GEMM ? tables[id] : NULL; }
static const attile_backend_v1 root = {sizeof root, ATTILE_BACKEND_ABI_MAJOR, ATTILE_BACKEND_ABI_MINOR, 0, "tiny", "1.0.0", probe, create,
                                       destroy,     query_interface};

ATTILE_ENTRY_EXPORT const attile_backend_v1 *attile_backend_entry_v1(const attile_host_v1 *from);
const attile_backend_v1 *attile_backend_entry_v1(const attile_host_v1 *from) { return host = from, &root; }
/*! [root] */
