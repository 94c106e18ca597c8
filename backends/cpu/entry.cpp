// SPDX-License-Identifier: Apache-2.0
// The entry of the backend: root, probe, contexts, interfaces.
#include <cstdio>
#include <new>

#include "state.h"
#include "threads/threads.h"

namespace attile::cpu {

const attile_host_v1 *g_host = nullptr;

int32_t fail(int32_t code, const char *text) {
    if (g_host != nullptr && g_host->set_error != nullptr) g_host->set_error(text);
    return code;
}

int32_t out_of_workspace(int64_t bytes) {
    char text[96];
    std::snprintf(text, sizeof text, "cpu: no memory for a workspace of %lld bytes", static_cast<long long>(bytes));
    return fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, text);
}

namespace {

int32_t probe(int32_t device, attile_backend_probe *found) {
    if (chosen_target() == Target::kNone) return ATTILE_ERROR_BACKEND_REFUSED;
    if (device != 0) return fail(ATTILE_ERROR_BACKEND_REFUSED, "cpu: there is one device, number 0");
    found->device_count = 1;
    processor_name(found->device_name, sizeof found->device_name);
    return ATTILE_OK;
}

int32_t context_create(const attile_backend_options *options, void **result) {
    const Target target = chosen_target();
    if (target == Target::kNone) return ATTILE_ERROR_BACKEND_REFUSED;
    State *state = new (std::nothrow) State;
    if (state == nullptr) return fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "cpu: no memory for a context");
    state->target = target;
    state->threads = options->threads > 0 ? options->threads : default_threads();
    if (state->threads > 1024) state->threads = 1024;
    state->caches = cache_sizes();
    if (options->pool_bytes > 0) state->pool.set_limit(options->pool_bytes);
    *result = state;
    return ATTILE_OK;
}

void context_destroy(void *state) { delete static_cast<State *>(state); }

const void *query_interface(uint32_t id, uint32_t version) {
    if (version < 1) return nullptr;
    switch (id) {
        case ATTILE_INTERFACE_DEVICE:
            return &g_device_interface;
        case ATTILE_INTERFACE_MEMORY:
            return &g_memory_interface;
        case ATTILE_INTERFACE_GEMM:
            return &g_gemm_interface;
        case ATTILE_INTERFACE_ATTENTION:
            return &g_attention_interface;
        case ATTILE_INTERFACE_ATTENTION_BACKWARD:
            return &g_attention_backward_interface;
        case ATTILE_INTERFACE_ATTENTION_MERGE:
            return &g_attention_merge_interface;
        case ATTILE_INTERFACE_ATTENTION_MERGE_BACKWARD:
            return &g_attention_merge_backward_interface;
        case ATTILE_INTERFACE_REDUCE:
            return &g_reduce_interface;
        case ATTILE_INTERFACE_SOFTMAX:
            return &g_softmax_interface;
        case ATTILE_INTERFACE_QUANTIZE:
            return &g_quantize_interface;
        case ATTILE_INTERFACE_REPACK:
            return &g_repack_interface;
        case ATTILE_INTERFACE_GEMM_GROUPED:
            return &g_gemm_grouped_interface;
        default:
            return nullptr;
    }
}

// A core of contract 1.0 refuses interfaces of version 2.
constexpr uint32_t kLowestHostMinor = 1;

constexpr attile_backend_v1 kRoot = {sizeof(attile_backend_v1),
                                     ATTILE_BACKEND_ABI_MAJOR,
                                     ATTILE_BACKEND_ABI_MINOR,
                                     kLowestHostMinor,
                                     "cpu",
                                     ATTILE_BACKEND_VERSION,
                                     probe,
                                     context_create,
                                     context_destroy,
                                     query_interface};

}  // namespace
}  // namespace attile::cpu

extern "C" ATTILE_ENTRY_EXPORT const attile_backend_v1 *ATTILE_BACKEND_ENTRY_SYMBOL(const attile_host_v1 *host) {
    attile::cpu::g_host = host;
    return &attile::cpu::kRoot;
}
