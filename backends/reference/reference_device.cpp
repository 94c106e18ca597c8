// SPDX-License-Identifier: Apache-2.0
// The reference backend's device and memory: one thread of the host, and ordinary memory for every kind.
#include <cstdio>
#include <cstring>
#include <limits>
#include <new>

#include "reference_backend.h"
#include "reference_system.h"

namespace attile::reference {
namespace {

std::int32_t info(void *, attile_context_info *out) {
    std::snprintf(out->backend, sizeof out->backend, "reference");
    std::snprintf(out->backend_version, sizeof out->backend_version, ATTILE_BACKEND_VERSION);
    std::snprintf(out->device_name, sizeof out->device_name, "reference (plain loops in double)");
    std::snprintf(out->arch, sizeof out->arch, "portable");
    out->device_type = ATTILE_DEVICE_CPU;
    out->compute_units = 1;
    out->threads = 1;
    out->lane_width = 1;
    read_memory(&out->memory_total, &out->memory_free);
    return ATTILE_OK;
}

struct Stream {};  // everything is finished when a call returns, so a stream is only an identity

std::int32_t stream_create(void *, void **stream) {
    *stream = new (std::nothrow) Stream;
    return *stream != nullptr ? ATTILE_OK : fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "no memory for a stream");
}

std::int32_t stream_destroy(void *, void *stream) {
    delete static_cast<Stream *>(stream);
    return ATTILE_OK;
}

std::int32_t synchronize(void *, void *) { return ATTILE_OK; }

constexpr std::int64_t kAlignment = 256;

std::int32_t alloc(void *, std::int32_t, std::int64_t bytes, void **pointer) {
    *pointer = nullptr;
    if (bytes <= std::numeric_limits<std::int64_t>::max() - kAlignment) {
        const std::int64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
        *pointer = allocate_aligned(kAlignment, static_cast<std::size_t>(rounded));
    }
    return *pointer != nullptr ? ATTILE_OK : fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "the host's memory is exhausted");
}

std::int32_t release(void *, std::int32_t, void *pointer) {
    free_aligned(pointer);
    return ATTILE_OK;
}

std::int32_t copy(void *, void *destination, const void *source, std::int64_t bytes, void *) {
    if (bytes > 0) std::memcpy(destination, source, static_cast<std::size_t>(bytes));
    return ATTILE_OK;
}

std::int32_t prefetch(void *, const void *, std::int64_t, std::int32_t, void *) { return ATTILE_OK; }

std::int32_t memory_kind(void *, const void *, std::int32_t *kind) {
    *kind = ATTILE_MEMORY_HOST;
    return ATTILE_OK;
}

}  // namespace

const attile_device_interface device_interface = {sizeof(attile_device_interface), 1, info, stream_create, stream_destroy, synchronize};
const attile_memory_interface memory_interface = {sizeof(attile_memory_interface), 1, alloc, release, copy, prefetch, memory_kind};

}  // namespace attile::reference
