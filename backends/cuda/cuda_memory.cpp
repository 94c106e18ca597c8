// SPDX-License-Identifier: Apache-2.0
// The device's memory, workspace pool, streams and events.
#include "cuda_device.h"
#include "host/status.h"

namespace attile::cuda {

using gpu::fail;

namespace {

cudaStream_t stream_of(Stream stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(Event event) { return static_cast<cudaEvent_t>(event); }

}  // namespace

int32_t CudaDevice::out_of_memory(int64_t bytes, const char *what_for) {
    cudaGetLastError();
    std::size_t free_bytes = 0, total_bytes = 0;
    if (cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess) cudaGetLastError();
    return fail(ATTILE_ERROR_OUT_OF_DEVICE_MEMORY, "%lld bytes%s asked of CUDA device %d, which has %llu free of %llu",
                static_cast<long long>(bytes), what_for, ordinal_, static_cast<unsigned long long>(free_bytes),
                static_cast<unsigned long long>(total_bytes));
}

int32_t CudaDevice::alloc(int32_t kind, int64_t bytes, void **pointer) {
    cudaError_t error = cudaSuccess;
    const std::size_t size = static_cast<std::size_t>(bytes);
    switch (kind) {
        case ATTILE_MEMORY_DEVICE:
            error = cudaMalloc(pointer, size);
            if (error == cudaSuccess && *pointer != nullptr) own_.add(*pointer, bytes);
            break;
        case ATTILE_MEMORY_MANAGED:
            error = cudaMallocManaged(pointer, size, cudaMemAttachGlobal);
            break;
        case ATTILE_MEMORY_PINNED:
            error = cudaHostAlloc(pointer, size, cudaHostAllocPortable);
            if (error == cudaErrorMemoryAllocation) {
                *pointer = nullptr;
                cudaGetLastError();
                return fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "%lld bytes of pinned memory are not to be had",
                            static_cast<long long>(bytes));
            }
            break;
        default:
            return fail(ATTILE_ERROR_UNSUPPORTED_MEMORY, "memory kind %d is not the device's", kind);
    }
    if (error != cudaErrorMemoryAllocation) return check_made(error, pointer, "allocating memory");
    *pointer = nullptr;
    return out_of_memory(bytes, "");
}

int32_t CudaDevice::free(int32_t kind, void *pointer) {
    own_.remove(pointer);
    return check(kind == ATTILE_MEMORY_PINNED ? cudaFreeHost(pointer) : cudaFree(pointer), "freeing memory");
}

// Asked of the driver, of which the runtime asks more than is wanted here, and every call asks of every operand.
int32_t CudaDevice::memory_kind(const void *pointer, int32_t *kind) {
    if (own_.has(pointer)) {
        *kind = ATTILE_MEMORY_DEVICE;
        return ATTILE_OK;
    }
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    unsigned int type = 0, is_managed = 0;  // As they stay for ordinary memory.
    int device = 0;
    void *values[] = {&type, &is_managed, &device};
    const CUresult result = driver_.pointer_attributes(3, asked, values, reinterpret_cast<CUdeviceptr>(pointer));
    const int32_t status = check(static_cast<cudaError_t>(result), "asking what a pointer points to");
    if (status != ATTILE_OK) return status;
    if (is_managed != 0) {
        *kind = ATTILE_MEMORY_MANAGED;
    } else if (type == CU_MEMORYTYPE_DEVICE) {
        *kind = ATTILE_MEMORY_DEVICE;
        if (device != ordinal_) return reach_memory_of(device, pointer);
    } else {
        *kind = type == CU_MEMORYTYPE_HOST ? ATTILE_MEMORY_PINNED : ATTILE_MEMORY_HOST;
    }
    return ATTILE_OK;
}

// Another device's memory can be reached by kernels here only if peer access is on.
int32_t CudaDevice::reach_memory_of(int device, const void *pointer) {
    int reachable = 0;
    if (cudaDeviceCanAccessPeer(&reachable, ordinal_, device) != cudaSuccess) cudaGetLastError();
    if (reachable != 0) {
        const cudaError_t enabled = cudaDeviceEnablePeerAccess(device, 0);
        if (enabled != cudaSuccess) cudaGetLastError();
        if (enabled == cudaSuccess || enabled == cudaErrorPeerAccessAlreadyEnabled) return ATTILE_OK;
    }
    return fail(ATTILE_ERROR_UNSUPPORTED_MEMORY, "pointer %p is memory of CUDA device %d, which device %d cannot reach", pointer, device,
                ordinal_);
}

int32_t CudaDevice::memory_free(int64_t *bytes) {
    std::size_t free_bytes = 0, total_bytes = 0;
    const int32_t status = check(cudaMemGetInfo(&free_bytes, &total_bytes), "reading the free memory");
    *bytes = static_cast<int64_t>(free_bytes);
    return status;
}

int32_t CudaDevice::copy(void *destination, const void *source, int64_t bytes, Stream stream) {
    return check(cudaMemcpyAsync(destination, source, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream_of(stream)), "copying");
}

int32_t CudaDevice::fill_zero(void *destination, int64_t bytes, Stream stream) {
    return check(cudaMemsetAsync(destination, 0, static_cast<std::size_t>(bytes), stream_of(stream)), "zeroing memory");
}

int32_t CudaDevice::prefetch(const void *pointer, int64_t bytes, int32_t kind, Stream stream) {
    int concurrent =
        0;  // Where the device cannot take page faults, all managed memory moves with each launch and there is nothing to hint.
    if (cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, ordinal_) != cudaSuccess) cudaGetLastError();
    if (concurrent == 0) return ATTILE_OK;
    const bool to_device = kind == ATTILE_MEMORY_DEVICE;
#if CUDART_VERSION >= 13000
    cudaMemLocation place = {};
    place.type = to_device ? cudaMemLocationTypeDevice : cudaMemLocationTypeHost;
    place.id = to_device ? ordinal_ : 0;
    return check(cudaMemPrefetchAsync(pointer, static_cast<std::size_t>(bytes), place, 0, stream_of(stream)), "prefetching");
#else
    return check(cudaMemPrefetchAsync(pointer, static_cast<std::size_t>(bytes), to_device ? ordinal_ : cudaCpuDeviceId, stream_of(stream)),
                 "prefetching");
#endif
}

int32_t CudaDevice::pool_alloc(int64_t bytes, Stream stream, void **pointer) {
    if (pool_ == nullptr) return cache_->alloc(bytes, stream, pointer);
    const cudaError_t error = cudaMallocFromPoolAsync(pointer, static_cast<std::size_t>(bytes), pool_, stream_of(stream));
    if (error != cudaErrorMemoryAllocation) return check_made(error, pointer, "taking a workspace");
    *pointer = nullptr;
    return out_of_memory(bytes, " of workspace");
}

int32_t CudaDevice::pool_free(void *pointer, Stream stream) {
    if (pool_ == nullptr) return cache_->free(pointer, stream);
    return check(cudaFreeAsync(pointer, stream_of(stream)), "giving a workspace back");
}

int32_t CudaDevice::pool_keep(int64_t bytes) {
    if (pool_ == nullptr) {
        cache_->keep(bytes);
        return ATTILE_OK;
    }
    uint64_t threshold = static_cast<uint64_t>(bytes);
    return check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &threshold), "sizing the workspace pool");
}

int32_t CudaDevice::stream_create(Stream *stream) {
    cudaStream_t created = nullptr;
    const cudaError_t error = cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking);
    *stream = created;
    return check_made(error, stream, "creating a stream");
}

int32_t CudaDevice::stream_destroy(Stream stream) { return check(cudaStreamDestroy(stream_of(stream)), "destroying a stream"); }

int32_t CudaDevice::synchronize(Stream stream) { return check(cudaStreamSynchronize(stream_of(stream)), "waiting for a stream"); }

int32_t CudaDevice::synchronize_all() { return check(cudaDeviceSynchronize(), "waiting for the device"); }

bool CudaDevice::capturing(Stream stream) { return capture_of(stream) == Capture::kOn; }

// The driver must not be asked for the number of a stream that is captured.
uint64_t CudaDevice::stream_number(Stream stream) {
    unsigned long long number = 0;
    if (pool_ == nullptr || driver_.stream_id == nullptr || capture_of(stream) != Capture::kNone) return 0;
    return driver_.stream_id(static_cast<CUstream>(stream), &number) == CUDA_SUCCESS ? uint64_t{number} + 1 : 0;
}

int32_t CudaDevice::event_create(bool timed, Event *event) {
    cudaEvent_t created = nullptr;
    const cudaError_t error = cudaEventCreateWithFlags(&created, timed ? cudaEventDefault : cudaEventDisableTiming);
    *event = created;
    return check_made(error, event, "creating an event");
}

int32_t CudaDevice::event_destroy(Event event) { return check(cudaEventDestroy(event_of(event)), "destroying an event"); }

int32_t CudaDevice::event_record(Event event, Stream stream) {
    return check(cudaEventRecord(event_of(event), stream_of(stream)), "recording an event");
}

int32_t CudaDevice::event_wait(Stream stream, Event event) {
    return check(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0), "making a stream wait");
}

int32_t CudaDevice::event_synchronize(Event event) { return check(cudaEventSynchronize(event_of(event)), "waiting for an event"); }

int32_t CudaDevice::event_done(Event event, bool *is_done) {
    const cudaError_t error = cudaEventQuery(event_of(event));
    *is_done = error == cudaSuccess;
    if (error == cudaErrorNotReady) {
        cudaGetLastError();
        return ATTILE_OK;
    }
    return check(error, "asking for an event");
}

int32_t CudaDevice::event_elapsed(Event from, Event to, float *milliseconds) {
    return check(cudaEventElapsedTime(milliseconds, event_of(from), event_of(to)), "timing");
}

}  // namespace attile::cuda
