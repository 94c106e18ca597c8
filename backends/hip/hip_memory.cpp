// SPDX-License-Identifier: Apache-2.0
// The device's memory, workspace, streams and events.
#include "hip_device.h"
#include "host/status.h"

namespace attile::hip {

using gpu::fail;

namespace {

hipStream_t stream_of(Stream stream) { return static_cast<hipStream_t>(stream); }
hipEvent_t event_of(Event event) { return static_cast<hipEvent_t>(event); }

}  // namespace

int32_t HipDevice::alloc(int32_t kind, int64_t bytes, void **pointer) {
    hipError_t error = hipSuccess;
    const std::size_t size = static_cast<std::size_t>(bytes);
    switch (kind) {
        case ATTILE_MEMORY_DEVICE:
            error = runtime_.malloc_device(pointer, size);
            break;
        case ATTILE_MEMORY_MANAGED:
            error = runtime_.malloc_managed(pointer, size, hipMemAttachGlobal);
            break;
        case ATTILE_MEMORY_PINNED:
            error = runtime_.malloc_host(pointer, size, hipHostMallocPortable);
            if (error == hipErrorOutOfMemory) {
                *pointer = nullptr;
                runtime_.clear_error();
                return fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "%lld bytes of pinned memory are not to be had",
                            static_cast<long long>(bytes));
            }
            break;
        default:
            return fail(ATTILE_ERROR_UNSUPPORTED_MEMORY, "memory kind %d is not the device's", kind);
    }
    if (error == hipErrorOutOfMemory) {
        *pointer = nullptr;
        runtime_.clear_error();
        std::size_t free_bytes = 0, total_bytes = 0;
        if (runtime_.memory_info(&free_bytes, &total_bytes) != hipSuccess) runtime_.clear_error();
        return fail(ATTILE_ERROR_OUT_OF_DEVICE_MEMORY, "%lld bytes asked of HIP device %d, which has %llu free of %llu",
                    static_cast<long long>(bytes), ordinal_, static_cast<unsigned long long>(free_bytes),
                    static_cast<unsigned long long>(total_bytes));
    }
    return check_made(error, pointer, "allocating memory");
}

int32_t HipDevice::free(int32_t kind, void *pointer) {
    return check(kind == ATTILE_MEMORY_PINNED ? runtime_.free_host(pointer) : runtime_.free_device(pointer), "freeing memory");
}

int32_t HipDevice::memory_kind(const void *pointer, int32_t *kind) {
    int owner = ordinal_;
    const hipError_t error = runtime_.pointer_kind(pointer, kind, &owner);
    if (error == hipErrorInvalidValue) {  // What HIP before 6.0 says of ordinary memory.
        runtime_.clear_error();
        *kind = ATTILE_MEMORY_HOST;
        return ATTILE_OK;
    }
    const int32_t status = check(error, "asking what a pointer points to");
    if (status != ATTILE_OK || *kind != ATTILE_MEMORY_DEVICE || owner == ordinal_) return status;
    // Another device's memory can be reached by kernels here only if peer access is on.
    int reachable = 0;
    if (runtime_.device_can_access_peer(&reachable, ordinal_, owner) != hipSuccess) runtime_.clear_error();
    if (reachable != 0) {
        const hipError_t enabled = runtime_.device_enable_peer_access(owner, 0);
        if (enabled != hipSuccess) runtime_.clear_error();
        if (enabled == hipSuccess || enabled == hipErrorPeerAccessAlreadyEnabled) return ATTILE_OK;
    }
    return fail(ATTILE_ERROR_UNSUPPORTED_MEMORY, "pointer %p is memory of HIP device %d, which device %d cannot reach", pointer, owner,
                ordinal_);
}

int32_t HipDevice::memory_free(int64_t *bytes) {
    std::size_t free_bytes = 0, total_bytes = 0;
    const int32_t status = check(runtime_.memory_info(&free_bytes, &total_bytes), "reading the free memory");
    *bytes = static_cast<int64_t>(free_bytes);
    return status;
}

int32_t HipDevice::copy(void *destination, const void *source, int64_t bytes, Stream stream) {
    return check(runtime_.memcpy_async(destination, source, static_cast<std::size_t>(bytes), hipMemcpyDefault, stream_of(stream)),
                 "copying");
}

int32_t HipDevice::fill_zero(void *destination, int64_t bytes, Stream stream) {
    return check(runtime_.memset_async(destination, 0, static_cast<std::size_t>(bytes), stream_of(stream)), "zeroing memory");
}

int32_t HipDevice::prefetch(const void *pointer, int64_t bytes, int32_t kind, Stream stream) {
    if (!has_page_faults_) return ATTILE_OK;  // Managed memory does not move then, and there is nothing to hint.
    const int place = kind == ATTILE_MEMORY_DEVICE ? ordinal_ : hipCpuDeviceId;
    return check(runtime_.prefetch_async(pointer, static_cast<std::size_t>(bytes), place, stream_of(stream)), "prefetching");
}

int32_t HipDevice::pool_alloc(int64_t bytes, Stream stream, void **pointer) { return cache_->alloc(bytes, stream, pointer); }

int32_t HipDevice::pool_free(void *pointer, Stream stream) { return cache_->free(pointer, stream); }

int32_t HipDevice::pool_keep(int64_t bytes) {
    cache_->keep(bytes);
    return ATTILE_OK;
}

int32_t HipDevice::stream_create(Stream *stream) {
    hipStream_t created = nullptr;
    const hipError_t error = runtime_.stream_create(&created, hipStreamNonBlocking);
    *stream = created;
    return check_made(error, stream, "creating a stream");
}

int32_t HipDevice::stream_destroy(Stream stream) { return check(runtime_.stream_destroy(stream_of(stream)), "destroying a stream"); }

int32_t HipDevice::synchronize(Stream stream) { return check(runtime_.stream_synchronize(stream_of(stream)), "waiting for a stream"); }

int32_t HipDevice::synchronize_all() { return check(runtime_.device_synchronize(), "waiting for the device"); }

bool HipDevice::capturing(Stream stream) {
    if (runtime_.stream_is_capturing == nullptr) return false;
    hipStreamCaptureStatus state = hipStreamCaptureStatusNone;
    if (runtime_.stream_is_capturing(stream_of(stream), &state) != hipSuccess) runtime_.clear_error();
    return state != hipStreamCaptureStatusNone;
}

int32_t HipDevice::event_create(bool timed, Event *event) {
    hipEvent_t created = nullptr;
    const hipError_t error = runtime_.event_create(&created, timed ? hipEventDefault : hipEventDisableTiming);
    *event = created;
    return check_made(error, event, "creating an event");
}

int32_t HipDevice::event_destroy(Event event) { return check(runtime_.event_destroy(event_of(event)), "destroying an event"); }

int32_t HipDevice::event_record(Event event, Stream stream) {
    return check(runtime_.event_record(event_of(event), stream_of(stream)), "recording an event");
}

int32_t HipDevice::event_wait(Stream stream, Event event) {
    return check(runtime_.stream_wait_event(stream_of(stream), event_of(event), 0), "making a stream wait");
}

int32_t HipDevice::event_synchronize(Event event) { return check(runtime_.event_synchronize(event_of(event)), "waiting for an event"); }

int32_t HipDevice::event_done(Event event, bool *is_done) {
    const hipError_t error = runtime_.event_query(event_of(event));
    *is_done = error == hipSuccess;
    if (error == hipErrorNotReady) {
        runtime_.clear_error();
        return ATTILE_OK;
    }
    return check(error, "asking for an event");
}

int32_t HipDevice::event_elapsed(Event from, Event to, float *milliseconds) {
    return check(runtime_.event_elapsed(milliseconds, event_of(from), event_of(to)), "timing");
}

}  // namespace attile::hip
