// SPDX-License-Identifier: Apache-2.0
// A HIP runtime for tests, with one device whose memory is the host's: what the backend calls is there, kernels are only written down.
// Built with the name that the backend looks for. FAKE_HIP in the environment picks a fault: "no-device", "out-of-memory", "no-image",
// "fault"; failing_calls.h lets any call fail. What is made by a call that fails is a pointer that nobody is to use.
#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "failing_calls.h"

namespace {

std::mutex lock;
std::map<const char *, std::pair<std::size_t, hipMemoryType>> blocks;
std::string kernels_launched;
int modules_loaded = 0;
std::set<void *> handles;  // Of streams and events.
int nothing = 0;
void *const kNothing = &nothing;

bool fault_is(const char *name) {
    const char *wanted = std::getenv("FAKE_HIP");
    return wanted != nullptr && std::strcmp(wanted, name) == 0;
}

hipError_t failure(const char *name) {
    switch (attile::test::FailingCalls::instance().call(name)) {
        case attile::test::Failure::kNone:
            return hipSuccess;
        case attile::test::Failure::kMemory:
            return hipErrorOutOfMemory;
        case attile::test::Failure::kOnce:
            return hipErrorNotSupported;
        case attile::test::Failure::kLasting:
            break;
    }
    return hipErrorLaunchFailure;
}
// In the first line of what a test may let fail. CREATES leaves something there that was not made; ENDS does its work all the same.
#define FAILS \
    if (const hipError_t failed = failure(__func__); failed != hipSuccess) return failed
#define CREATES(place)                                                               \
    if (const hipError_t failed = failure(__func__); failed != hipSuccess) {         \
        *place = reinterpret_cast<std::remove_pointer_t<decltype(place)>>(kNothing); \
        return failed;                                                               \
    }
#define ENDS(work)                               \
    const hipError_t ended = work;               \
    const hipError_t failed = failure(__func__); \
    return ended != hipSuccess ? ended : failed

hipError_t make_handle(void **handle) {
    const std::lock_guard<std::mutex> guard(lock);
    *handle = new int;
    handles.insert(*handle);
    attile::test::FailingCalls::instance().born();
    return hipSuccess;
}
hipError_t end_handle(void *handle) {
    const std::lock_guard<std::mutex> guard(lock);
    if (handles.erase(handle) == 0) {
        attile::test::FailingCalls::instance().misused();
        return hipErrorInvalidValue;
    }
    delete static_cast<int *>(handle);
    attile::test::FailingCalls::instance().dead();
    return hipSuccess;
}

hipError_t take(void **pointer, std::size_t bytes, hipMemoryType type) {
    if (fault_is("out-of-memory")) return hipErrorOutOfMemory;
    *pointer = std::aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
    if (*pointer == nullptr) return hipErrorOutOfMemory;
    const std::lock_guard<std::mutex> guard(lock);
    blocks[static_cast<const char *>(*pointer)] = {bytes, type};
    attile::test::FailingCalls::instance().born();
    return hipSuccess;
}

hipError_t give(void *pointer) {
    const std::lock_guard<std::mutex> guard(lock);
    if (blocks.erase(static_cast<const char *>(pointer)) == 0) {
        attile::test::FailingCalls::instance().misused();
        return hipErrorInvalidValue;
    }
    std::free(pointer);
    attile::test::FailingCalls::instance().dead();
    return hipSuccess;
}

}  // namespace

extern "C" {

// For the test.
__attribute__((visibility("default"))) const char *fake_kernels() { return kernels_launched.c_str(); }
__attribute__((visibility("default"))) int fake_modules() { return modules_loaded; }
__attribute__((visibility("default"))) int fake_leaks() { return static_cast<int>(blocks.size() + handles.size()); }

hipError_t hipInit(unsigned int) {
    FAILS;
    return hipSuccess;
}
hipError_t hipGetDeviceCount(int *count) {
    FAILS;
    *count = fault_is("no-device") ? 0 : 1;
    return *count == 0 ? hipErrorNoDevice : hipSuccess;
}
hipError_t hipGetDeviceProperties(hipDeviceProp_t *properties, int) {
    FAILS;
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
    FAILS;
    *device = 0;
    return hipSuccess;
}
hipError_t hipSetDevice(int) {
    FAILS;
    return hipSuccess;
}
hipError_t hipDeviceSynchronize() {
    FAILS;
    return hipSuccess;
}
hipError_t hipDeviceCanAccessPeer(int *can, int, int) {
    FAILS;
    *can = 0;
    return hipSuccess;
}
hipError_t hipDeviceEnablePeerAccess(int, unsigned int) {
    FAILS;
    return hipErrorInvalidDevice;
}
hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t, int) {
    FAILS;
    *value = 0;
    return hipSuccess;
}
hipError_t hipGetLastError() { return hipSuccess; }
const char *hipGetErrorString(hipError_t error) { return error == hipErrorLaunchFailure ? "unspecified launch failure" : "a fake error"; }
const char *hipGetErrorName(hipError_t) { return "hipErrorFake"; }

hipError_t hipMemGetInfo(std::size_t *free_bytes, std::size_t *total_bytes) {
    FAILS;
    *free_bytes = 1u << 29;
    *total_bytes = 1u << 30;
    return hipSuccess;
}
hipError_t hipMalloc(void **pointer, std::size_t bytes) {
    CREATES(pointer)
    return take(pointer, bytes, hipMemoryTypeDevice);
}
hipError_t hipMallocManaged(void **pointer, std::size_t bytes, unsigned int) {
    CREATES(pointer)
    return take(pointer, bytes, hipMemoryTypeUnified);
}
hipError_t hipHostMalloc(void **pointer, std::size_t bytes, unsigned int) {
    CREATES(pointer)
    return take(pointer, bytes, hipMemoryTypeHost);
}
hipError_t hipFree(void *pointer) { ENDS(give(pointer)); }
hipError_t hipHostFree(void *pointer) { ENDS(give(pointer)); }
hipError_t hipMemcpyAsync(void *to, const void *from, std::size_t bytes, hipMemcpyKind, hipStream_t) {
    FAILS;
    std::memcpy(to, from, bytes);
    return hipSuccess;
}
hipError_t hipMemsetAsync(void *to, int value, std::size_t bytes, hipStream_t) {
    FAILS;
    std::memset(to, value, bytes);
    return hipSuccess;
}
hipError_t hipMemPrefetchAsync(const void *, std::size_t, int, hipStream_t) {
    FAILS;
    return hipErrorNotSupported;
}
hipError_t hipPointerGetAttributes(hipPointerAttribute_t *attributes, const void *pointer) {
    FAILS;
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
    CREATES(stream)
    if (fault_is("no-stream")) {
        *stream = static_cast<hipStream_t>(kNothing);  // As a runtime was seen to, short of memory.
        return hipErrorOutOfMemory;
    }
    return make_handle(reinterpret_cast<void **>(stream));
}
hipError_t hipStreamDestroy(hipStream_t stream) { ENDS(end_handle(stream)); }
hipError_t hipStreamSynchronize(hipStream_t) {
    FAILS;
    return hipSuccess;
}
// Later than the header: of a stream of another device where the test says so.
__attribute__((visibility("default"))) hipError_t hipStreamGetDevice(hipStream_t, int *device) {
    *device = fault_is("foreign-stream") ? 1 : 0;
    return hipSuccess;
}
hipError_t hipStreamWaitEvent(hipStream_t, hipEvent_t, unsigned int) {
    FAILS;
    return hipSuccess;
}
hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned int) {
    CREATES(event)
    return make_handle(reinterpret_cast<void **>(event));
}
hipError_t hipEventDestroy(hipEvent_t event) { ENDS(end_handle(event)); }
hipError_t hipEventRecord(hipEvent_t, hipStream_t) {
    FAILS;
    return hipSuccess;
}
hipError_t hipEventSynchronize(hipEvent_t) {
    FAILS;
    return hipSuccess;
}
hipError_t hipEventQuery(hipEvent_t) {
    FAILS;
    return hipSuccess;
}
hipError_t hipEventElapsedTime(float *milliseconds, hipEvent_t, hipEvent_t) {
    FAILS;
    *milliseconds = 1;
    return hipSuccess;
}

hipError_t hipModuleLoadData(hipModule_t *module, const void *image) {
    CREATES(module)
    if (fault_is("no-image")) return hipErrorNoBinaryForGpu;
    // What clang bundles begins with these letters.
    if (std::memcmp(image, "__CLANG_OFFLOAD_BUNDLE__", 24) != 0) return hipErrorInvalidImage;
    ++modules_loaded;
    *module = static_cast<hipModule_t>(const_cast<void *>(image));
    return hipSuccess;
}
hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t, const char *name) {
    CREATES(function)
    *function = reinterpret_cast<hipFunction_t>(const_cast<char *>(name));
    return hipSuccess;
}
hipError_t hipFuncGetAttribute(int *value, hipFunction_attribute, hipFunction_t) {
    FAILS;
    *value = 64;
    return hipSuccess;
}
hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned int grid_x, unsigned int, unsigned int, unsigned int block_x,
                                 unsigned int, unsigned int, unsigned int shared, hipStream_t, void **arguments, void **) {
    FAILS;
    if (fault_is("fault")) return hipErrorLaunchFailure;
    if (grid_x == 0 || block_x == 0 || block_x > 1024 || shared > 65536 || arguments == nullptr) return hipErrorInvalidConfiguration;
    kernels_launched += reinterpret_cast<const char *>(function);
    kernels_launched += '\n';
    return hipSuccess;
}
hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks_found, hipFunction_t, int, std::size_t) {
    FAILS;
    *blocks_found = 2;
    return hipSuccess;
}

}  // extern "C"
