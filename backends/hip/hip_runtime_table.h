// SPDX-License-Identifier: Apache-2.0
// The HIP runtime as a table of functions, found at run time, so that the backend loads on a machine without ROCm. Two implementations:
// AMD's libamdhip64, opened by name (hip_runtime_amd.cpp, hip_kernels_amd.cpp), and HIP's platform for NVIDIA, whose functions are inline
// in its headers (hip_runtime_nvidia.cpp), with which the same code is tested where there is no AMD device.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "device.h"

namespace attile::hip {

struct Runtime {
    hipError_t (*init)(unsigned int flags) = nullptr;
    hipError_t (*device_count)(int *count) = nullptr;
    hipError_t (*device_properties)(hipDeviceProp_t *properties, int device) = nullptr;
    hipError_t (*device_get)(int *device) = nullptr;
    hipError_t (*device_set)(int device) = nullptr;
    hipError_t (*device_synchronize)() = nullptr;
    hipError_t (*device_can_access_peer)(int *can, int device, int peer) = nullptr;
    hipError_t (*device_enable_peer_access)(int peer, unsigned int flags) = nullptr;
    hipError_t (*device_attribute)(int *value, hipDeviceAttribute_t attribute, int device) = nullptr;
    hipError_t (*last_error)() = nullptr;
    const char *(*error_string)(hipError_t error) = nullptr;
    const char *(*error_name)(hipError_t error) = nullptr;

    hipError_t (*memory_info)(std::size_t *free_bytes, std::size_t *total_bytes) = nullptr;
    hipError_t (*malloc_device)(void **pointer, std::size_t bytes) = nullptr;
    hipError_t (*malloc_managed)(void **pointer, std::size_t bytes, unsigned int flags) = nullptr;
    hipError_t (*malloc_host)(void **pointer, std::size_t bytes, unsigned int flags) = nullptr;
    hipError_t (*free_device)(void *pointer) = nullptr;
    hipError_t (*free_host)(void *pointer) = nullptr;
    hipError_t (*memcpy_async)(void *destination, const void *source, std::size_t bytes, hipMemcpyKind kind, hipStream_t stream) = nullptr;
    hipError_t (*memset_async)(void *destination, int value, std::size_t bytes, hipStream_t stream) = nullptr;
    hipError_t (*prefetch_async)(const void *pointer, std::size_t bytes, int device, hipStream_t stream) = nullptr;

    hipError_t (*stream_create)(hipStream_t *stream, unsigned int flags) = nullptr;
    hipError_t (*stream_destroy)(hipStream_t stream) = nullptr;
    hipError_t (*stream_synchronize)(hipStream_t stream) = nullptr;
    hipError_t (*stream_wait_event)(hipStream_t stream, hipEvent_t event, unsigned int flags) = nullptr;
    hipError_t (*stream_is_capturing)(hipStream_t stream, hipStreamCaptureStatus *state) = nullptr;  // nullptr before HIP 4.5.
    hipError_t (*exchange_capture_mode)(hipStreamCaptureMode *mode) = nullptr;                       // nullptr before HIP 5.0.
    hipError_t (*stream_device)(hipStream_t stream, int *device) = nullptr;                          // nullptr in older ones.
    hipError_t (*event_create)(hipEvent_t *event, unsigned int flags) = nullptr;
    hipError_t (*event_destroy)(hipEvent_t event) = nullptr;
    hipError_t (*event_record)(hipEvent_t event, hipStream_t stream) = nullptr;
    hipError_t (*event_synchronize)(hipEvent_t event) = nullptr;
    hipError_t (*event_query)(hipEvent_t event) = nullptr;
    hipError_t (*event_elapsed)(float *milliseconds, hipEvent_t from, hipEvent_t to) = nullptr;

    // What differs between the platforms. `kernel` is the host address of a __global__ function; the device is current.
    hipError_t (*pointer_kind)(const void *pointer, int32_t *kind, int *device) = nullptr;  // `kind` is an ATTILE_MEMORY_ constant.
    hipError_t (*kernel_launch)(const void *kernel, dim3 grid, dim3 block, std::size_t shared, void **arguments,
                                hipStream_t stream) = nullptr;
    hipError_t (*kernel_resources)(const void *kernel, gpu::KernelResources *found) = nullptr;
    hipError_t (*kernel_occupancy)(const void *kernel, int threads, std::size_t shared, int *blocks_per_unit) = nullptr;
    hipError_t (*kernel_allow_shared)(const void *kernel, std::size_t shared) = nullptr;

    // The runtime remembers a thread's last error, and would tell it to the calling program.
    void clear_error() const { static_cast<void>(last_error()); }
};

// The runtime, started; or nullptr and why in `reason`. Loads it once a process and never unloads it. A failure is not remembered.
const Runtime *runtime(std::string *reason);

}  // namespace attile::hip
