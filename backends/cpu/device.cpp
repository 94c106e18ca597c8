// SPDX-License-Identifier: Apache-2.0
// Device and memory interfaces: every kind of memory is ordinary memory, every stream is the calling thread.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "block.h"
#include "state.h"

namespace attile::cpu {
namespace {

double clock_from_system() {
    std::FILE *file = std::fopen("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "re");
    if (file == nullptr) return 0;
    double khz = 0;
    if (std::fscanf(file, "%lf", &khz) != 1) khz = 0;
    std::fclose(file);
    return khz * 1e3;
}

int32_t info(void *opaque, attile_context_info *out) {
    State &state = *static_cast<State *>(opaque);
    processor_name(out->device_name, sizeof out->device_name);
    std::snprintf(out->arch, sizeof out->arch, "%s", target_name(state.target));
    out->device_type = ATTILE_DEVICE_CPU;
    out->compute_units = static_cast<int32_t>(sysconf(_SC_NPROCESSORS_ONLN));
    out->threads = state.threads;
    out->lane_width = target_lanes_f32(state.target);
    const int64_t page = sysconf(_SC_PAGESIZE);
    out->memory_total = sysconf(_SC_PHYS_PAGES) * page;
#if defined(_SC_AVPHYS_PAGES)
    out->memory_free = sysconf(_SC_AVPHYS_PAGES) * page;
#endif
    out->l2_bytes = state.caches.l3;
    out->clock_hz = clock_from_system();
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
    std::free(pointer);
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
