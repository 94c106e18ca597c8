// SPDX-License-Identifier: Apache-2.0
// HIP's platform for NVIDIA: its functions are inline over the CUDA runtime, which is linked in. For testing the backend's code on such a
// device; who has one uses the cuda backend.
#include <dlfcn.h>

#include <cstring>

#include "hip_runtime_table.h"

namespace attile::hip {
namespace {

// HIP's own answer knows neither managed nor ordinary memory on this platform.
hipError_t pointer_kind(const void *pointer, int32_t *kind, int *device) {
    cudaPointerAttributes attributes;
    const cudaError_t error = cudaPointerGetAttributes(&attributes, pointer);
    if (error != cudaSuccess) return hipCUDAErrorTohipError(error);
    *device = attributes.device;
    switch (attributes.type) {
        case cudaMemoryTypeDevice:
            *kind = ATTILE_MEMORY_DEVICE;
            break;
        case cudaMemoryTypeManaged:
            *kind = ATTILE_MEMORY_MANAGED;
            break;
        case cudaMemoryTypeHost:
            *kind = ATTILE_MEMORY_PINNED;
            break;
        default:
            *kind = ATTILE_MEMORY_HOST;
            break;
    }
    return hipSuccess;
}

hipError_t launch(const void *kernel, dim3 grid, dim3 block, std::size_t shared, void **arguments, hipStream_t stream) {
    return hipLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

hipError_t resources(const void *kernel, gpu::KernelResources *found) {
    hipFuncAttributes attributes;
    const hipError_t error = hipFuncGetAttributes(&attributes, kernel);
    if (error != hipSuccess) return error;
    found->registers = attributes.numRegs;
    found->shared_static = static_cast<int32_t>(attributes.sharedSizeBytes);
    found->local_bytes = static_cast<int32_t>(attributes.localSizeBytes);
    found->max_threads = attributes.maxThreadsPerBlock;
    found->binary_version = attributes.binaryVersion;
    found->source_version = attributes.ptxVersion;
    return hipSuccess;
}

hipError_t occupancy(const void *kernel, int threads, std::size_t shared, int *blocks) {
    return hipOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, threads, shared);
}

hipError_t allow_shared(const void *kernel, std::size_t shared) {
    return hipFuncSetAttribute(kernel, hipFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
}

Runtime make() {
    Runtime table;
    table.init = [](unsigned int) { return hipSuccess; };  // The runtime starts by itself; hipInit would need libcuda at link time.
    table.device_count = [](int *count) { return hipGetDeviceCount(count); };
    table.device_properties = [](hipDeviceProp_t *properties, int device) {
        std::memset(static_cast<void *>(properties), 0, sizeof *properties);
        return hipGetDeviceProperties(properties, device);
    };
    table.device_get = [](int *device) { return hipGetDevice(device); };
    table.device_set = [](int device) { return hipSetDevice(device); };
    table.device_synchronize = [] { return hipDeviceSynchronize(); };
    table.device_can_access_peer = [](int *can, int device, int peer) { return hipDeviceCanAccessPeer(can, device, peer); };
    table.device_enable_peer_access = [](int peer, unsigned int flags) { return hipDeviceEnablePeerAccess(peer, flags); };
    table.device_attribute = [](int *value, hipDeviceAttribute_t which, int device) { return hipDeviceGetAttribute(value, which, device); };
    table.last_error = [] { return hipGetLastError(); };
    table.error_string = [](hipError_t error) { return hipGetErrorString(error); };
    table.error_name = [](hipError_t error) { return hipGetErrorName(error); };
    table.memory_info = [](std::size_t *free_bytes, std::size_t *total_bytes) { return hipMemGetInfo(free_bytes, total_bytes); };
    table.malloc_device = [](void **pointer, std::size_t bytes) { return hipMalloc(pointer, bytes); };
    table.malloc_managed = [](void **pointer, std::size_t bytes, unsigned int flags) { return hipMallocManaged(pointer, bytes, flags); };
    table.malloc_host = [](void **pointer, std::size_t bytes, unsigned int flags) { return hipHostMalloc(pointer, bytes, flags); };
    table.free_device = [](void *pointer) { return hipFree(pointer); };
    table.free_host = [](void *pointer) { return hipHostFree(pointer); };
    table.memcpy_async = [](void *to, const void *from, std::size_t bytes, hipMemcpyKind kind, hipStream_t stream) {
        return hipMemcpyAsync(to, from, bytes, kind, stream);
    };
    table.memset_async = [](void *to, int value, std::size_t bytes, hipStream_t stream) {
        return hipMemsetAsync(to, value, bytes, stream);
    };
    table.prefetch_async = [](const void *pointer, std::size_t bytes, int device, hipStream_t stream) {
        return hipMemPrefetchAsync(pointer, bytes, device, stream);
    };
    table.stream_create = [](hipStream_t *stream, unsigned int flags) { return hipStreamCreateWithFlags(stream, flags); };
    table.stream_destroy = [](hipStream_t stream) { return hipStreamDestroy(stream); };
    table.stream_synchronize = [](hipStream_t stream) { return hipStreamSynchronize(stream); };
    table.stream_wait_event = [](hipStream_t stream, hipEvent_t event, unsigned int flags) {
        return hipStreamWaitEvent(stream, event, flags);
    };
    table.stream_is_capturing = [](hipStream_t stream, hipStreamCaptureStatus *state) {
        return hipCUDAErrorTohipError(cudaStreamIsCapturing(stream, state));
    };
    table.exchange_capture_mode = [](hipStreamCaptureMode *mode) {
        return hipCUDAErrorTohipError(cudaThreadExchangeStreamCaptureMode(mode));
    };
    table.event_create = [](hipEvent_t *event, unsigned int flags) { return hipEventCreateWithFlags(event, flags); };
    table.event_destroy = [](hipEvent_t event) { return hipEventDestroy(event); };
    table.event_record = [](hipEvent_t event, hipStream_t stream) { return hipEventRecord(event, stream); };
    table.event_synchronize = [](hipEvent_t event) { return hipEventSynchronize(event); };
    table.event_query = [](hipEvent_t event) { return hipEventQuery(event); };
    table.event_elapsed = [](float *milliseconds, hipEvent_t from, hipEvent_t to) { return hipEventElapsedTime(milliseconds, from, to); };
    table.pointer_kind = pointer_kind;
    table.kernel_launch = launch;
    table.kernel_resources = resources;
    table.kernel_occupancy = occupancy;
    table.kernel_allow_shared = allow_shared;
    return table;
}

}  // namespace

const Runtime *runtime(std::string *reason) {
    // Where there is no driver at all, the CUDA runtime would say no more than 'insufficient driver'.
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver == nullptr) {
        const char *words = dlerror();
        *reason =
            std::string("built for HIP's NVIDIA platform, and no NVIDIA driver: ") + (words != nullptr ? words : "libcuda.so.1 not found");
        return nullptr;
    }
    static const Runtime table = make();
    return &table;
}

}  // namespace attile::hip
