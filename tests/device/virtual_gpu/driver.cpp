// SPDX-License-Identifier: Apache-2.0
// The driver's functions that the backend looks up, and what the device says about itself.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "runtime.h"

namespace attile::virtual_gpu {
namespace {

int number_in(const char *variable, int otherwise) {
    const char *const text = std::getenv(variable);
    return text != nullptr && *text != '\0' ? std::atoi(text) : otherwise;
}

// A device has one context, whose address is its place here; this thread's stack of them, and the device that it named where that is empty.
constexpr int kMostDevices = 4;
char primary_contexts[kMostDevices];
thread_local std::vector<CUcontext> contexts;
thread_local int named_device = 0;
int device_of(CUcontext context) {
    const char *const place = reinterpret_cast<const char *>(context);
    return place >= primary_contexts && place < primary_contexts + device_count() ? static_cast<int>(place - primary_contexts) : -1;
}

struct Word {
    CUresult error;
    const char *text;
};
constexpr Word kWords[] = {{CUDA_SUCCESS, "no error"},
                           {CUDA_ERROR_INVALID_VALUE, "invalid argument"},
                           {CUDA_ERROR_INVALID_CONTEXT, "invalid device context"},
                           {CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"},
                           {CUDA_ERROR_NOT_SUPPORTED, "operation not supported"}};

CUresult driver_failure(const char *name) {
    switch (failure(name)) {
        case cudaSuccess:
            return CUDA_SUCCESS;
        case cudaErrorMemoryAllocation:
            return CUDA_ERROR_OUT_OF_MEMORY;
        case cudaErrorNotSupported:
            return CUDA_ERROR_NOT_SUPPORTED;
        default:
            return CUDA_ERROR_LAUNCH_FAILED;
    }
}
// In the first line of what a test may let fail.
#define FAILS \
    if (const CUresult failed = driver_failure(__func__); failed != CUDA_SUCCESS) return failed

}  // namespace

int device_count() {
    static const int count = std::clamp(number_in("ATTILE_VIRTUAL_DEVICES", 1), 1, kMostDevices);
    return count;
}
int current_device() { return contexts.empty() ? named_device : device_of(contexts.back()); }
bool set_device(int device) {
    if (device < 0 || device >= device_count()) return false;
    named_device = device;
    return true;
}

int capability() {
    static const int found = number_in("ATTILE_VIRTUAL_CAPABILITY", 90);
    return found;
}

std::size_t memory_bytes() {
    static const int found = number_in("ATTILE_VIRTUAL_MEMORY", 4096);
    return static_cast<std::size_t>(found) << 20;
}

int device_attribute(int which) {
    static const int units = number_in("ATTILE_VIRTUAL_UNITS", 132), cache = number_in("ATTILE_VIRTUAL_CACHE", 50 << 20);
    const bool is_small = capability() > 80 && capability() < 90;  // 8.6 and 8.9: less shared memory, fewer threads.
    const bool is_older = capability() < 80;                       // 7.5
    switch (which) {
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
            return capability() / 10;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
            return capability() % 10;
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
            return units;
        case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
            return kLanes;
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
            return 1024;
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
            return is_older ? 1024 : is_small ? 1536 : 2048;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
            return is_older || is_small ? 16 : 32;
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
            return 65536;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
            return 49152;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
            return is_older ? 65536 : is_small ? 101376 : capability() == 80 ? 166912 : 232448;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
            return is_older ? 65536 : is_small ? 102400 : capability() == 80 ? 167936 : 233472;
        case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
            return is_older ? 0 : 1024;
        case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
            return cache;
        case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
            return 1755000;
        case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
            return 2619000;
        case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
            return 5120;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
            return 1024;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
            return 64;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
            return 0x7fffffff;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
            return 65535;
        case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
        case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
        case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
        case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
        case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
            return 1;
#if CUDA_VERSION >= 11080
        case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
            return capability() >= 90 ? 1 : 0;
#endif
        default:
            return 0;
    }
}

}  // namespace attile::virtual_gpu

using namespace attile::virtual_gpu;

ATTILE_EXPORT CUresult cuInit(unsigned int) {
    FAILS;
    return CUDA_SUCCESS;
}
ATTILE_EXPORT CUresult cuDriverGetVersion(int *version) {
    FAILS;
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}
ATTILE_EXPORT CUresult cuGetErrorString(CUresult error, const char **text) {
    *text = nullptr;
    for (const Word &word : kWords)
        if (word.error == error) *text = word.text;
    return *text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
ATTILE_EXPORT CUresult cuDeviceGetCount(int *count) {
    FAILS;
    *count = device_count();
    return CUDA_SUCCESS;
}
ATTILE_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    FAILS;
    if (ordinal < 0 || ordinal >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}
ATTILE_EXPORT CUresult cuDeviceGetName(char *name, int bytes, CUdevice) {
    FAILS;
    std::snprintf(name, static_cast<std::size_t>(bytes), "virtual sm_%d", capability());
    return CUDA_SUCCESS;
}
ATTILE_EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice) {
    FAILS;
    *value = device_attribute(attribute);
    return CUDA_SUCCESS;
}
ATTILE_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    FAILS;
    if (device < 0 || device >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
    *context = reinterpret_cast<CUcontext>(primary_contexts + device);
    attile::test::FailingCalls::instance().born();
    return CUDA_SUCCESS;
}
ATTILE_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) {
    attile::test::FailingCalls::instance().dead();
    FAILS;
    return CUDA_SUCCESS;
}
ATTILE_EXPORT CUresult cuCtxGetCurrent(CUcontext *context) {
    FAILS;
    *context = contexts.empty() ? nullptr : contexts.back();
    return CUDA_SUCCESS;
}
ATTILE_EXPORT CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **values, CUdeviceptr pointer) {
    FAILS;
    const int kind = kind_of(reinterpret_cast<const void *>(pointer));
    for (unsigned int i = 0; i < count; ++i) {
        switch (attributes[i]) {
            case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
                *static_cast<unsigned int *>(values[i]) = kind == cudaMemoryTypeUnregistered ? 0
                                                          : kind == cudaMemoryTypeHost       ? CU_MEMORYTYPE_HOST
                                                                                             : CU_MEMORYTYPE_DEVICE;
                break;
            case CU_POINTER_ATTRIBUTE_IS_MANAGED:
                *static_cast<unsigned int *>(values[i]) = kind == cudaMemoryTypeManaged ? 1 : 0;
                break;
            case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
                *static_cast<int *>(values[i]) = kind == cudaMemoryTypeUnregistered ? -2 : 0;
                break;
            default:
                return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return CUDA_SUCCESS;
}
ATTILE_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context) {
    FAILS;
    if (device_of(context) < 0) return CUDA_ERROR_INVALID_CONTEXT;
    contexts.push_back(context);
    return CUDA_SUCCESS;
}
ATTILE_EXPORT CUresult cuCtxGetDevice(CUdevice *device) {
    if (contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    *device = device_of(contexts.back());
    return CUDA_SUCCESS;
}
ATTILE_EXPORT CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
    FAILS;
    const int device = stream_device(stream);
    if (device < 0) return CUDA_ERROR_INVALID_HANDLE;
    *context = reinterpret_cast<CUcontext>(primary_contexts + device);
    return CUDA_SUCCESS;
}
ATTILE_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    if (contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (context != nullptr) *context = contexts.back();
    contexts.pop_back();
    FAILS;
    return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 12000
namespace {

int element_bytes(CUtensorMapDataType type) {
    switch (type) {
        case CU_TENSOR_MAP_DATA_TYPE_UINT8:
            return 1;
        case CU_TENSOR_MAP_DATA_TYPE_UINT16:
        case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
        case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
            return 2;
        case CU_TENSOR_MAP_DATA_TYPE_UINT32:
        case CU_TENSOR_MAP_DATA_TYPE_INT32:
        case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
        case CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ:
        case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32:
        case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ:
            return 4;
        case CU_TENSOR_MAP_DATA_TYPE_UINT64:
        case CU_TENSOR_MAP_DATA_TYPE_INT64:
        case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
            return 8;
        default:
            return 0;
    }
}
// The bytes of a box's row that the swizzle's pattern has room for.
uint64_t span(CUtensorMapSwizzle swizzle) {
    switch (swizzle) {
        case CU_TENSOR_MAP_SWIZZLE_32B:
            return 32;
        case CU_TENSOR_MAP_SWIZZLE_64B:
            return 64;
        case CU_TENSOR_MAP_SWIZZLE_128B:
            return 128;
        default:
            return ~uint64_t{0};
    }
}

}  // namespace

// What the driver checks, and that nothing is asked for that the machine has not.
ATTILE_EXPORT CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t axes, void *base,
                                              const cuuint64_t *extents, const cuuint64_t *strides, const cuuint32_t *box,
                                              const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                              CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
    FAILS;
    const auto bytes = static_cast<uint64_t>(element_bytes(type));
    if (map == nullptr || reinterpret_cast<uintptr_t>(map) % 64 != 0 || bytes == 0 || axes < 1 || axes > 5 || base == nullptr ||
        reinterpret_cast<uintptr_t>(base) % 16 != 0 || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ||
        swizzle > CU_TENSOR_MAP_SWIZZLE_128B || fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
        return CUDA_ERROR_INVALID_VALUE;
    TensorMap made = {};
    made.base = reinterpret_cast<uintptr_t>(base);
    made.axes = static_cast<uint8_t>(axes);
    made.element_bytes = static_cast<uint8_t>(bytes);
    made.swizzle = static_cast<uint8_t>(swizzle);
    for (cuuint32_t i = 0; i < 5; ++i) {
        made.extent[i] = made.box[i] = 1;
        if (i >= axes) continue;
        if (extents[i] < 1 || extents[i] > uint64_t{1} << 32 || box[i] < 1 || box[i] > 256 || steps[i] != 1)
            return CUDA_ERROR_INVALID_VALUE;
        made.extent[i] = static_cast<uint32_t>(std::min<uint64_t>(extents[i], 0xffffffff));  // Coordinates end before that.
        made.box[i] = static_cast<uint16_t>(box[i]);
        if (i == 0) continue;
        if (strides[i - 1] % 16 != 0 || strides[i - 1] >= uint64_t{1} << 40) return CUDA_ERROR_INVALID_VALUE;
        made.stride[i - 1] = strides[i - 1];
    }
    if (box[0] * bytes % 16 != 0 || box[0] * bytes > span(swizzle)) return CUDA_ERROR_INVALID_VALUE;
    std::memset(map, 0, sizeof *map);
    std::memcpy(map, &made, sizeof made);
    return CUDA_SUCCESS;
}
#endif
