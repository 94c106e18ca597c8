// SPDX-License-Identifier: Apache-2.0
// Finds the driver's library. A failure is not remembered: a driver may be installed, or a device appear, while the process runs.
#include "cuda_driver.h"

#include <mutex>

#include "cuda_library.h"

namespace attile::cuda {
namespace {

// Constant-initialised and trivially destroyed, so nothing runs at process exit.
std::mutex loading;
Driver the_driver;
bool is_ready = false;

template <class Function>
bool find(void *library, const char *name, Function &function, std::string *reason) {
    void *symbol = library_symbol(library, name);
    if (symbol == nullptr) {
        *reason = std::string("the NVIDIA driver is too old: ") + driver_library_name + " has no " + name;
        return false;
    }
    function = reinterpret_cast<Function>(symbol);
    return true;
}

}  // namespace

std::string Driver::text(CUresult error) const {
    const char *words = nullptr;
    if (error_string != nullptr && error_string(error, &words) == CUDA_SUCCESS && words != nullptr) return words;
    return "driver error " + std::to_string(static_cast<int>(error));
}

const Driver *driver(std::string *reason) {
    const std::lock_guard<std::mutex> lock(loading);
    if (is_ready) return &the_driver;
    std::string words;
    void *library = open_driver_library(&words);
    if (library == nullptr) {
        *reason = "no NVIDIA driver: " + words;
        return nullptr;
    }
    Driver found;
    if (!find(library, "cuInit", found.init, reason) || !find(library, "cuDriverGetVersion", found.driver_version, reason) ||
        !find(library, "cuGetErrorString", found.error_string, reason) || !find(library, "cuDeviceGetCount", found.device_count, reason) ||
        !find(library, "cuDeviceGet", found.device_get, reason) || !find(library, "cuDeviceGetName", found.device_name, reason) ||
        !find(library, "cuDeviceGetAttribute", found.device_attribute, reason) ||
        !find(library, "cuDevicePrimaryCtxRetain", found.primary_retain, reason) ||
        !find(library, "cuDevicePrimaryCtxRelease_v2", found.primary_release, reason) ||
        !find(library, "cuCtxGetCurrent", found.current_get, reason) || !find(library, "cuCtxPushCurrent_v2", found.current_push, reason) ||
        !find(library, "cuCtxPopCurrent_v2", found.current_pop, reason) || !find(library, "cuCtxGetDevice", found.current_device, reason) ||
        !find(library, "cuPointerGetAttributes", found.pointer_attributes, reason) ||
        !find(library, "cuThreadExchangeStreamCaptureMode", found.exchange_capture_mode, reason) ||
        !find(library, "cuStreamIsCapturing", found.stream_capturing, reason) ||
        !find(library, "cuFuncSetAttribute", found.function_set, reason) || !find(library, "cuLaunchKernel", found.launch, reason)) {
        close_library(library);
        return nullptr;
    }
    found.stream_context = reinterpret_cast<decltype(found.stream_context)>(library_symbol(library, "cuStreamGetCtx"));
    found.stream_id = reinterpret_cast<decltype(found.stream_id)>(library_symbol(library, "cuStreamGetId"));
    found.launch_with = reinterpret_cast<decltype(found.launch_with)>(library_symbol(library, "cuLaunchKernelEx"));
    found.tensor_map_encode = library_symbol(library, "cuTensorMapEncodeTiled");
    const CUresult started = found.init(0);
    if (started != CUDA_SUCCESS) {
        *reason = "the NVIDIA driver does not start: " + found.text(started);
        close_library(library);
        return nullptr;
    }
    if (found.driver_version(&found.version) != CUDA_SUCCESS) found.version = 0;
    the_driver = found;
    is_ready = true;
    return &the_driver;
}

}  // namespace attile::cuda
