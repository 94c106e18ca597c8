// SPDX-License-Identifier: Apache-2.0
// Device and memory interfaces: every kind of memory is ordinary memory, every stream is the calling thread.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "block.h"
#include "state.h"
#include "system.h"

namespace attile::cpu {
namespace {

int32_t info(void *opaque, attile_context_info *out) {
    State &state = *static_cast<State *>(opaque);
    processor_name(out->device_name, sizeof out->device_name);
    std::snprintf(out->arch, sizeof out->arch, "%s", target_name(state.target));
    out->device_type = ATTILE_DEVICE_CPU;
    out->compute_units = processors_online();
    out->threads = state.threads;
    out->lane_width = target_lanes_f32(state.target);
    out->memory_total = memory_total();
    out->memory_free = memory_free();
    out->l2_bytes = state.caches.l3;
    out->clock_hz = clock_hz();
    const Roof roof = state.roof.measured(state.target, state.threads);
    out->peak_flops_f32 = roof.flops_f32;
    out->peak_flops_f64 = roof.flops_f64;
    out->peak_bandwidth = roof.bandwidth;
    return ATTILE_OK;
}

int32_t stream_create(void *, void **stream) {
    void *made = std::malloc(1);
    if (made == nullptr) return fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "cpu: no memory for a stream");
    *stream = made;
    return ATTILE_OK;
}

int32_t stream_destroy(void *, void *stream) {
    std::free(stream);
    return ATTILE_OK;
}

int32_t synchronize(void *, void *) { return ATTILE_OK; }

int32_t allocate(void *, int32_t, int64_t bytes, void **pointer) {
    *pointer = allocate_block(bytes);
    if (*pointer != nullptr) return ATTILE_OK;
    char text[96];
    std::snprintf(text, sizeof text, "cpu: no memory for %lld bytes", static_cast<long long>(bytes));
    return fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, text);
}

int32_t release(void *, int32_t, void *pointer) {
    free_block(pointer);
    return ATTILE_OK;
}

int32_t copy(void *, void *destination, const void *source, int64_t bytes, void *) {
    std::memcpy(destination, source, static_cast<size_t>(bytes));
    return ATTILE_OK;
}

int32_t prefetch(void *, const void *, int64_t, int32_t, void *) { return ATTILE_OK; }

int32_t memory_kind(void *, const void *, int32_t *kind) {
    *kind = ATTILE_MEMORY_HOST;
    return ATTILE_OK;
}

}  // namespace

const attile_device_interface g_device_interface = {sizeof(attile_device_interface), 1, info, stream_create, stream_destroy, synchronize};
const attile_memory_interface g_memory_interface = {sizeof(attile_memory_interface), 1, allocate, release, copy, prefetch, memory_kind};

}  // namespace attile::cpu
