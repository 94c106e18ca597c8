// SPDX-License-Identifier: Apache-2.0
// A HIP runtime for tests, with one device whose memory is the host's: what the backend calls is there, kernels are only written down.
// Built with the name that the backend looks for. FAKE_HIP in the environment picks a fault: "no-device", "out-of-memory", "no-image",
// "fault".
#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

namespace {

std::mutex lock;
std::map<const char *, std::pair<std::size_t, hipMemoryType>> blocks;
std::string kernels_launched;
int modules_loaded = 0, live_streams = 0, live_events = 0;
int no_stream = 0;
const hipStream_t kNoStream = reinterpret_cast<hipStream_t>(&no_stream);

bool fault_is(const char *name) {
    const char *wanted = std::getenv("FAKE_HIP");
    return wanted != nullptr && std::strcmp(wanted, name) == 0;
}

hipError_t take(void **pointer, std::size_t bytes, hipMemoryType type) {
    if (fault_is("out-of-memory")) return hipErrorOutOfMemory;
    *pointer = std::aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
    if (*pointer == nullptr) return hipErrorOutOfMemory;
    const std::lock_guard<std::mutex> guard(lock);
    blocks[static_cast<const char *>(*pointer)] = {bytes, type};
    return hipSuccess;
}

hipError_t give(void *pointer) {
    const std::lock_guard<std::mutex> guard(lock);
    if (blocks.erase(static_cast<const char *>(pointer)) == 0) return hipErrorInvalidValue;
    std::free(pointer);
    return hipSuccess;
}

}  // namespace

extern "C" {

// For the test.
__attribute__((visibility("default"))) const char *fake_kernels() { return kernels_launched.c_str(); }
__attribute__((visibility("default"))) int fake_modules() { return modules_loaded; }
__attribute__((visibility("default"))) int fake_leaks() { return static_cast<int>(blocks.size()) + live_streams + live_events; }

hipError_t hipInit(unsigned int) { return hipSuccess; }
hipError_t hipGetDeviceCount(int *count) {
    *count = fault_is("no-device") ? 0 : 1;
    return *count == 0 ? hipErrorNoDevice : hipSuccess;
}
hipError_t hipGetDeviceProperties(hipDeviceProp_t *properties, int) {
    std::memset(static_cast<void *>(properties), 0, sizeof *properties);
    std::snprintf(properties->name, sizeof properties->name, "Fake Instinct");
    std::snprintf(properties->gcnArchName, sizeof properties->gcnArchName, "gfx90a:sramecc+:xnack-");
    properties->totalGlobalMem = 1ull << 30;
    properties->sharedMemPerBlock = 65536;
    properties->maxSharedMemoryPerMultiProcessor = 65536;
    properties->regsPerBlock = 65536;
    properties->warpSize = 64;
    properties->maxThreadsPerBlock = 1024;
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->multiProcessorCount = 104;
    properties->clockRate = 1700000;
    properties->memoryClockRate = 1600000;
    properties->memoryBusWidth = 4096;
    properties->l2CacheSize = 8 << 20;
    return hipSuccess;
}
hipError_t hipGetDevice(int *device) {
    *device = 0;
    return hipSuccess;
}
hipError_t hipSetDevice(int) { return hipSuccess; }
hipError_t hipDeviceSynchronize() { return hipSuccess; }
hipError_t hipDeviceCanAccessPeer(int *can, int, int) {
    *can = 0;
    return hipSuccess;
}
hipError_t hipDeviceEnablePeerAccess(int, unsigned int) { return hipErrorInvalidDevice; }
hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t, int) {
    *value = 0;
    return hipSuccess;
}
hipError_t hipGetLastError() { return hipSuccess; }
const char *hipGetErrorString(hipError_t error) { return error == hipErrorLaunchFailure ? "unspecified launch failure" : "a fake error"; }
const char *hipGetErrorName(hipError_t) { return "hipErrorFake"; }

hipError_t hipMemGetInfo(std::size_t *free_bytes, std::size_t *total_bytes) {
    *free_bytes = 1u << 29;
    *total_bytes = 1u << 30;
    return hipSuccess;
}
hipError_t hipMalloc(void **pointer, std::size_t bytes) { return take(pointer, bytes, hipMemoryTypeDevice); }
hipError_t hipMallocManaged(void **pointer, std::size_t bytes, unsigned int) { return take(pointer, bytes, hipMemoryTypeUnified); }
hipError_t hipHostMalloc(void **pointer, std::size_t bytes, unsigned int) { return take(pointer, bytes, hipMemoryTypeHost); }
hipError_t hipFree(void *pointer) { return give(pointer); }
hipError_t hipHostFree(void *pointer) { return give(pointer); }
hipError_t hipMemcpyAsync(void *to, const void *from, std::size_t bytes, hipMemcpyKind, hipStream_t) {
    std::memcpy(to, from, bytes);
    return hipSuccess;
}
hipError_t hipMemsetAsync(void *to, int value, std::size_t bytes, hipStream_t) {
    std::memset(to, value, bytes);
    return hipSuccess;
}
hipError_t hipMemPrefetchAsync(const void *, std::size_t, int, hipStream_t) { return hipErrorNotSupported; }
hipError_t hipPointerGetAttributes(hipPointerAttribute_t *attributes, const void *pointer) {
    const std::lock_guard<std::mutex> guard(lock);
    const auto *at = static_cast<const char *>(pointer);
    auto block = blocks.upper_bound(at);
    if (block == blocks.begin()) return hipErrorInvalidValue;
    --block;
    if (at >= block->first + std::max<std::size_t>(block->second.first, 1)) return hipErrorInvalidValue;
    std::memset(static_cast<void *>(attributes), 0, sizeof *attributes);
    attributes->memoryType = block->second.second;
    attributes->isManaged = block->second.second == hipMemoryTypeUnified ? 1 : 0;
    return hipSuccess;
}

hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned int) {
    if (fault_is("no-stream")) {
        *stream = kNoStream;  // As a runtime was seen to, short of memory.
        return hipErrorOutOfMemory;
    }
    *stream = reinterpret_cast<hipStream_t>(new int);
    ++live_streams;
    return hipSuccess;
}
hipError_t hipStreamDestroy(hipStream_t stream) {
    if (stream == kNoStream) return hipErrorInvalidValue;
    delete reinterpret_cast<int *>(stream);
    --live_streams;
    return hipSuccess;
}
hipError_t hipStreamSynchronize(hipStream_t) { return hipSuccess; }
hipError_t hipStreamWaitEvent(hipStream_t, hipEvent_t, unsigned int) { return hipSuccess; }
hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned int) {
    *event = reinterpret_cast<hipEvent_t>(new int);
    ++live_events;
    return hipSuccess;
}
hipError_t hipEventDestroy(hipEvent_t event) {
    delete reinterpret_cast<int *>(event);
    --live_events;
    return hipSuccess;
}
hipError_t hipEventRecord(hipEvent_t, hipStream_t) { return hipSuccess; }
hipError_t hipEventSynchronize(hipEvent_t) { return hipSuccess; }
hipError_t hipEventQuery(hipEvent_t) { return hipSuccess; }
hipError_t hipEventElapsedTime(float *milliseconds, hipEvent_t, hipEvent_t) {
    *milliseconds = 1;
    return hipSuccess;
}

hipError_t hipModuleLoadData(hipModule_t *module, const void *image) {
    if (fault_is("no-image")) return hipErrorNoBinaryForGpu;
    // What clang bundles begins with these letters.
    if (std::memcmp(image, "__CLANG_OFFLOAD_BUNDLE__", 24) != 0) return hipErrorInvalidImage;
    ++modules_loaded;
    *module = static_cast<hipModule_t>(const_cast<void *>(image));
    return hipSuccess;
}
hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t, const char *name) {
    *function = reinterpret_cast<hipFunction_t>(const_cast<char *>(name));
    return hipSuccess;
}
hipError_t hipFuncGetAttribute(int *value, hipFunction_attribute, hipFunction_t) {
    *value = 64;
    return hipSuccess;
}
hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned int grid_x, unsigned int, unsigned int, unsigned int block_x,
                                 unsigned int, unsigned int, unsigned int shared, hipStream_t, void **arguments, void **) {
    if (fault_is("fault")) return hipErrorLaunchFailure;
    if (grid_x == 0 || block_x == 0 || block_x > 1024 || shared > 65536 || arguments == nullptr) return hipErrorInvalidConfiguration;
    kernels_launched += reinterpret_cast<const char *>(function);
    kernels_launched += '\n';
    return hipSuccess;
}
hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks_found, hipFunction_t, int, std::size_t) {
    *blocks_found = 2;
    return hipSuccess;
}

}  // extern "C"
