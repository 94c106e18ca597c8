// SPDX-License-Identifier: Apache-2.0
// AMD's HIP runtime, opened by the name that carries the major version whose headers this was compiled with: structs and enumerations
// differ between major versions.
#include <dlfcn.h>

#include <mutex>

#include "hip_kernels_amd.h"

#define ATTILE_HIP_TEXT_OF(name) #name
#define ATTILE_HIP_TEXT(name) ATTILE_HIP_TEXT_OF(name)

namespace attile::hip {
namespace {

constexpr char kLibrary[] = "libamdhip64.so." ATTILE_HIP_TEXT(HIP_VERSION_MAJOR);

// Constant-initialised and trivially destroyed, so nothing runs at process exit.
std::mutex loading;
Runtime the_runtime;
bool is_ready = false;

hipError_t (*pointer_attributes)(hipPointerAttribute_t *attributes, const void *pointer) = nullptr;

hipError_t pointer_kind(const void *pointer, int32_t *kind, int *device) {
    hipPointerAttribute_t attributes;
    const hipError_t error = pointer_attributes(&attributes, pointer);
    if (error != hipSuccess) return error;
    *device = attributes.device;
#if HIP_VERSION_MAJOR >= 6
    const hipMemoryType type = attributes.type;
    *kind = type == hipMemoryTypeUnregistered ? ATTILE_MEMORY_HOST : ATTILE_MEMORY_PINNED;
    if (type == hipMemoryTypeManaged) *kind = ATTILE_MEMORY_MANAGED;
#else
    const hipMemoryType type = attributes.memoryType;
    *kind = ATTILE_MEMORY_PINNED;
#endif
    if (type == hipMemoryTypeDevice) *kind = ATTILE_MEMORY_DEVICE;
    if (attributes.isManaged != 0) *kind = ATTILE_MEMORY_MANAGED;
    return hipSuccess;
}

class Finder {
  public:
    explicit Finder(void *library) : library_(library) {}
    template <class Function>
    void find(const char *name, Function *function, bool is_needed = true) {
        void *symbol = dlsym(library_, name);
        if (symbol == nullptr && is_needed && missing_ == nullptr) missing_ = name;
        *function = reinterpret_cast<Function>(symbol);
    }
    const char *missing() const { return missing_; }

  private:
    void *library_;
    const char *missing_ = nullptr;
};

// The header may give a function of this version another name by a macro.
#define ATTILE_HIP_FIND(function, member) finder.find(ATTILE_HIP_TEXT(function), &member)

const char *find_all(void *library, Runtime *found, ModuleFunctions *modules) {
    Finder finder(library);
    ATTILE_HIP_FIND(hipInit, found->init);
    ATTILE_HIP_FIND(hipGetDeviceCount, found->device_count);
    ATTILE_HIP_FIND(hipGetDeviceProperties, found->device_properties);
    ATTILE_HIP_FIND(hipGetDevice, found->device_get);
    ATTILE_HIP_FIND(hipSetDevice, found->device_set);
    ATTILE_HIP_FIND(hipDeviceSynchronize, found->device_synchronize);
    ATTILE_HIP_FIND(hipDeviceCanAccessPeer, found->device_can_access_peer);
    ATTILE_HIP_FIND(hipDeviceEnablePeerAccess, found->device_enable_peer_access);
    ATTILE_HIP_FIND(hipDeviceGetAttribute, found->device_attribute);
    ATTILE_HIP_FIND(hipGetLastError, found->last_error);
    ATTILE_HIP_FIND(hipGetErrorString, found->error_string);
    ATTILE_HIP_FIND(hipGetErrorName, found->error_name);
    ATTILE_HIP_FIND(hipMemGetInfo, found->memory_info);
    ATTILE_HIP_FIND(hipMalloc, found->malloc_device);
    ATTILE_HIP_FIND(hipMallocManaged, found->malloc_managed);
    ATTILE_HIP_FIND(hipHostMalloc, found->malloc_host);
    ATTILE_HIP_FIND(hipFree, found->free_device);
    ATTILE_HIP_FIND(hipHostFree, found->free_host);
    ATTILE_HIP_FIND(hipMemcpyAsync, found->memcpy_async);
    ATTILE_HIP_FIND(hipMemsetAsync, found->memset_async);
    ATTILE_HIP_FIND(hipMemPrefetchAsync, found->prefetch_async);
    ATTILE_HIP_FIND(hipStreamCreateWithFlags, found->stream_create);
    ATTILE_HIP_FIND(hipStreamDestroy, found->stream_destroy);
    ATTILE_HIP_FIND(hipStreamSynchronize, found->stream_synchronize);
    ATTILE_HIP_FIND(hipStreamWaitEvent, found->stream_wait_event);
    finder.find(ATTILE_HIP_TEXT(hipStreamIsCapturing), &found->stream_is_capturing, false);
    finder.find(ATTILE_HIP_TEXT(hipThreadExchangeStreamCaptureMode), &found->exchange_capture_mode, false);
    finder.find("hipStreamGetDevice", &found->stream_device, false);
    ATTILE_HIP_FIND(hipEventCreateWithFlags, found->event_create);
    ATTILE_HIP_FIND(hipEventDestroy, found->event_destroy);
    ATTILE_HIP_FIND(hipEventRecord, found->event_record);
    ATTILE_HIP_FIND(hipEventSynchronize, found->event_synchronize);
    ATTILE_HIP_FIND(hipEventQuery, found->event_query);
    ATTILE_HIP_FIND(hipEventElapsedTime, found->event_elapsed);
    ATTILE_HIP_FIND(hipPointerGetAttributes, pointer_attributes);
    ATTILE_HIP_FIND(hipModuleLoadData, modules->load);
    ATTILE_HIP_FIND(hipModuleGetFunction, modules->function);
    ATTILE_HIP_FIND(hipFuncGetAttribute, modules->attribute);
    ATTILE_HIP_FIND(hipModuleLaunchKernel, modules->launch);
    ATTILE_HIP_FIND(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor, modules->occupancy);
    modules->device_get = found->device_get;
    found->pointer_kind = pointer_kind;
    return finder.missing();
}

#undef ATTILE_HIP_FIND

}  // namespace

const Runtime *runtime(std::string *reason) {
    const std::lock_guard<std::mutex> lock(loading);
    if (is_ready) return &the_runtime;
    void *library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        const char *words = dlerror();
        *reason = std::string("no ROCm runtime: ") + (words != nullptr ? words : kLibrary);
        return nullptr;
    }
    Runtime found;
    ModuleFunctions modules;
    if (const char *missing = find_all(library, &found, &modules)) {
        *reason = std::string(kLibrary) + " has no " + missing;
        dlclose(library);
        return nullptr;
    }
    const hipError_t started = found.init(0);
    if (started != hipSuccess) {
        *reason = std::string("the ROCm runtime does not start: ") + found.error_string(started);
        return nullptr;  // Not closed: its threads may have started.
    }
    use_modules(modules, &found);
    the_runtime = found;
    is_ready = true;
    return &the_runtime;
}

}  // namespace attile::hip
