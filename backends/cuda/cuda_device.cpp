// SPDX-License-Identifier: Apache-2.0
// The device: opening and closing it, being current, errors, kernels. Memory, streams and events are in cuda_memory.cpp.
#include "cuda_device.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>

#include "host/status.h"
#if defined(ATTILE_GPU_HAS_SM80)
#include "sm80/kernels.h"
#endif
#if defined(ATTILE_GPU_HAS_SM90)
#include "sm90/kernels.h"
#endif

namespace attile::cuda {

using gpu::fail;

namespace {

// The capture mode that a call found, which leave() puts back, and of which stream it asked since whether it is captured, with the answer.
// Calls nest two deep at most.
struct Found {
    CUstreamCaptureMode mode;
    bool was_exchanged;
    bool has_asked;
    int capture;
    Stream asked;
};
constexpr int kMostFound = 4;
thread_local Found found_before[kMostFound];
thread_local int enter_depth = 0;

// After these the primary context is of no use any more.
bool is_lasting(cudaError_t error) {
    switch (error) {
        case cudaErrorIllegalAddress:
        case cudaErrorLaunchTimeout:
        case cudaErrorLaunchFailure:
        case cudaErrorHardwareStackError:
        case cudaErrorIllegalInstruction:
        case cudaErrorMisalignedAddress:
        case cudaErrorInvalidAddressSpace:
        case cudaErrorInvalidPc:
        case cudaErrorAssert:
        case cudaErrorECCUncorrectable:
        case cudaErrorNvlinkUncorrectable:
        case cudaErrorContextIsDestroyed:
        case cudaErrorDevicesUnavailable:
        case cudaErrorUnknown:
#if CUDART_VERSION >= 13000
        case cudaErrorContained:
        case cudaErrorTensorMemoryLeak:
#endif
            return true;
        default:
            return false;
    }
}

// Not of memory, whatever the runtime ran out of: those codes promise that nothing was written, which only what allocates can say.
int32_t status_of(cudaError_t error) {
    switch (error) {
        case cudaErrorInvalidConfiguration:
        case cudaErrorLaunchOutOfResources:
        case cudaErrorNoKernelImageForDevice:
        case cudaErrorUnsupportedPtxVersion:
        case cudaErrorInvalidPtx:
        case cudaErrorJitCompilerNotFound:
        case cudaErrorInvalidDeviceFunction:
            return ATTILE_ERROR_DEVICE_LAUNCH;
        default:
            return is_lasting(error) ? ATTILE_ERROR_DEVICE_FAULT : ATTILE_ERROR_DEVICE_RUNTIME;
    }
}

struct Lanes {
    int capability, f32, f64;
};
// Lanes a multiprocessor has for each precision, by compute capability: the last row not above the device's counts.
constexpr Lanes kLanesOf[] = {{60, 64, 32}, {61, 128, 4}, {70, 64, 32},  {75, 64, 2},    {80, 64, 32},
                              {86, 128, 2}, {89, 128, 2}, {90, 128, 64}, {100, 128, 64}, {120, 128, 2}};
struct TensorRate {
    int capability;
    double flops;
};
// Operations of f16 and bf16 with float32 sums that a multiprocessor's tensor cores do a clock, likewise; GeForce boards do half of 1024.
constexpr TensorRate kTensorRateOf[] = {{80, 2048}, {86, 1024}, {90, 4096}, {100, 8192}, {120, 1024}};

}  // namespace

int32_t CudaDevice::open(const Driver &driver, int ordinal, const void *probe_kernel, std::unique_ptr<gpu::Device> *device) {
    std::unique_ptr<CudaDevice> opened(new (std::nothrow) CudaDevice(driver, ordinal));
    if (opened == nullptr) return fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "no memory for the device's state");
    const int32_t status = opened->start(probe_kernel);
    if (status != ATTILE_OK) return status;
    *device = std::move(opened);
    return ATTILE_OK;
}

int32_t CudaDevice::start(const void *probe_kernel) {
    CUresult result = driver_.device_get(&handle_, ordinal_);
    if (result != CUDA_SUCCESS) return fail(ATTILE_ERROR_BACKEND_REFUSED, "CUDA device %d: %s", ordinal_, driver_.text(result).c_str());
    result = driver_.primary_retain(&context_, handle_);
    if (result != CUDA_SUCCESS) {
        context_ = nullptr;
        const int32_t code = result == CUDA_ERROR_OUT_OF_MEMORY ? ATTILE_ERROR_OUT_OF_DEVICE_MEMORY : ATTILE_ERROR_BACKEND_REFUSED;
        return fail(code, "CUDA device %d cannot be opened: %s", ordinal_, driver_.text(result).c_str());
    }
    const gpu::Entered entered(*this);
    if (entered.status() != ATTILE_OK) return entered.status();
    cudaFuncAttributes attributes;
    const cudaError_t error = cudaFuncGetAttributes(&attributes, probe_kernel);
    if (error != cudaSuccess) {
        cudaGetLastError();
        return fail(ATTILE_ERROR_BACKEND_REFUSED, "CUDA device %d: this build has no code for it that the driver takes: %s", ordinal_,
                    cudaGetErrorString(error));
    }
    const int32_t status = read_properties();
    properties_.gradients_by = gpu::gradients_by_name(gpu::environment("ATTILE_CUDA_GRADIENTS"));
    properties_.attention_by = gpu::attention_by_name(gpu::environment("ATTILE_CUDA_ATTENTION"));
    const char *const gemm_by = gpu::environment("ATTILE_CUDA_GEMM");
    std::snprintf(properties_.gemm_by, sizeof properties_.gemm_by, "%s", gemm_by != nullptr ? gemm_by : "");
    return status == ATTILE_OK ? find_kernels() : status;
}

int32_t CudaDevice::find_kernels() {
    const char *const wanted = gpu::environment("ATTILE_CUDA_TENSOR_CORES");
    if (wanted != nullptr && std::strcmp(wanted, "0") == 0) return ATTILE_OK;
#if defined(ATTILE_GPU_HAS_SM90)
    const bool only_sm80 = wanted != nullptr && std::strcmp(wanted, "80") == 0;
    if (!only_sm80 && properties_.capability == 90 && driver_.tensor_map_encode != nullptr) sets_[0] = &gpu::sm90::kKernels;
#endif
#if defined(ATTILE_GPU_HAS_SM80)
    // Whether there is machine code or PTX for the device is the toolkit's and the build's affair: asked of a kernel.
    if (properties_.capability >= 80) {
        cudaFuncAttributes attributes;
        const cudaError_t error = cudaFuncGetAttributes(&attributes, gpu::sm80::some_kernel());
        if (error == cudaSuccess) {
            sets_[1] = &gpu::sm80::kKernels;
        } else if (const int32_t status = check(error, "looking for kernels for tensor cores"); status != ATTILE_ERROR_DEVICE_LAUNCH) {
            return status;  // Other than that there is no code for the device.
        }
    }
#endif
    for (const TensorRate &rate : kTensorRateOf) {
        if ((sets_[0] == nullptr && sets_[1] == nullptr) || rate.capability > properties_.capability) break;
        properties_.peak_flops_f16 = rate.flops * properties_.compute_units * properties_.clock_hz;
    }
    return ATTILE_OK;
}

CudaDevice::~CudaDevice() {
    if (context_ == nullptr) return;
    // Where the context cannot be made current, what can be given back without is.
    const bool is_current = driver_.current_push(context_) == CUDA_SUCCESS;
    cache_.reset();
    if (pool_ != nullptr) cudaMemPoolDestroy(pool_);
    cudaGetLastError();
    CUcontext popped = nullptr;
    if (is_current) driver_.current_pop(&popped);
    driver_.primary_release(handle_);
}

int32_t CudaDevice::enter(bool is_cleaning_up) {
    const int fault = fault_.load(std::memory_order_relaxed);
    if (fault != 0 && !is_cleaning_up) {
        return fail(ATTILE_ERROR_DEVICE_FAULT, "CUDA device %d failed earlier in this context: %s", ordinal_,
                    cudaGetErrorString(static_cast<cudaError_t>(fault)));
    }
    const CUresult result = driver_.current_push(context_);
    if (result != CUDA_SUCCESS) {
        return fail(ATTILE_ERROR_DEVICE_RUNTIME, "CUDA device %d cannot be made current: %s", ordinal_, driver_.text(result).c_str());
    }
    Found found = {};
    // While some thread captures a graph in its strict mode, other threads could not even allocate: nothing here depends on a capture.
    found.mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    found.was_exchanged = driver_.exchange_capture_mode(&found.mode) == CUDA_SUCCESS;
    if (enter_depth < kMostFound) found_before[enter_depth] = found;
    ++enter_depth;
    return ATTILE_OK;
}

void CudaDevice::leave() {
    --enter_depth;
    if (enter_depth < kMostFound && found_before[enter_depth].was_exchanged) driver_.exchange_capture_mode(&found_before[enter_depth].mode);
    CUcontext popped = nullptr;
    driver_.current_pop(&popped);
}

// The answer stays: a stream whose capture begins or ends while a call uses it is the affair of the two threads.
CudaDevice::Capture CudaDevice::capture_of(Stream stream) {
    Found unknown = {};
    Found &found = enter_depth > 0 && enter_depth <= kMostFound ? found_before[enter_depth - 1] : unknown;
    if (found.has_asked && found.asked == stream) return static_cast<Capture>(found.capture);
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    const bool is_known = driver_.stream_capturing(static_cast<CUstream>(stream), &state) == CUDA_SUCCESS;
    const Capture capture = !is_known ? Capture::kUnknown : state == CU_STREAM_CAPTURE_STATUS_NONE ? Capture::kNone : Capture::kOn;
    found.has_asked = true;
    found.asked = stream;
    found.capture = static_cast<int>(capture);
    return capture;
}

int32_t CudaDevice::check_stream(Stream stream) {
    CUcontext found = nullptr;
    if (stream == nullptr || driver_.stream_context == nullptr) return ATTILE_OK;
    if (driver_.stream_context(static_cast<CUstream>(stream), &found) != CUDA_SUCCESS || found == context_) return ATTILE_OK;
    // A green context, or one that the caller made, maybe on this device.
    CUdevice device = handle_;
    if (driver_.current_push(found) == CUDA_SUCCESS) {
        driver_.current_device(&device);
        driver_.current_pop(&found);
    }
    return device == handle_ ? ATTILE_OK : refuse_stream("the call");
}

int32_t CudaDevice::refuse_stream(const char *what) const {
    return fail(ATTILE_ERROR_INVALID_VALUE, "%s: the stream does not belong to CUDA device %d", what, ordinal_);
}

int32_t CudaDevice::check(cudaError_t error, const char *what) {
    if (error == cudaSuccess) return ATTILE_OK;
    cudaGetLastError();
    if (error == cudaErrorInvalidResourceHandle || error == cudaErrorInvalidDevice) return refuse_stream(what);
    if (is_lasting(error)) fault_.store(static_cast<int>(error), std::memory_order_relaxed);
    return fail(status_of(error), "%s on CUDA device %d: %s (%s)", what, ordinal_, cudaGetErrorString(error), cudaGetErrorName(error));
}

int32_t CudaDevice::check_made(cudaError_t error, void **made, const char *what) {
    if (error == cudaSuccess) return ATTILE_OK;
    *made = nullptr;  // A call that fails may leave something there, which nobody is to destroy.
    if (error != cudaErrorMemoryAllocation) return check(error, what);
    cudaGetLastError();
    return fail(ATTILE_ERROR_OUT_OF_DEVICE_MEMORY, "%s on CUDA device %d: %s", what, ordinal_, cudaGetErrorString(error));
}

int32_t CudaDevice::read_properties() {
    gpu::DeviceProperties &p = properties_;
    CUresult asked = driver_.device_name(p.name, static_cast<int>(sizeof p.name), handle_);
    const auto attribute = [&](CUdevice_attribute which) {
        int value = 0;
        const CUresult result = driver_.device_attribute(&value, which, handle_);
        if (result == CUDA_SUCCESS) return value;
        if (asked == CUDA_SUCCESS && result != CUDA_ERROR_INVALID_VALUE) asked = result;  // Older drivers know fewer of them.
        return 0;
    };
    p.index = ordinal_;
    p.device_type = ATTILE_DEVICE_CUDA;
    p.capability = 10 * attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) + attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    std::snprintf(p.arch, sizeof p.arch, "sm_%d", p.capability);
    p.compute_units = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    p.lane_width = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    p.threads_per_unit = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    p.blocks_per_unit = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
    p.registers_per_unit = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
    p.shared_per_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    p.shared_opt_in = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    p.shared_per_unit = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    p.l2_bytes = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    p.clock_hz = 1e3 * attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    p.peak_bandwidth =
        2.0 * 1e3 * attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) * (attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8);
    if (asked != CUDA_SUCCESS)
        return fail(ATTILE_ERROR_DEVICE_RUNTIME, "CUDA device %d does not say what it is: %s", ordinal_, driver_.text(asked).c_str());
    for (const Lanes &lanes : kLanesOf) {
        if (lanes.capability > p.capability) break;
        p.peak_flops_f32 = 2.0 * lanes.f32 * p.compute_units * p.clock_hz;
        p.peak_flops_f64 = 2.0 * lanes.f64 * p.compute_units * p.clock_hz;
    }
    std::size_t free_bytes = 0, total_bytes = 0;
    const int32_t status = check(cudaMemGetInfo(&free_bytes, &total_bytes), "reading the memory's size");
    if (status != ATTILE_OK) return status;
    p.memory_total = static_cast<int64_t>(total_bytes);

    int has_pools = 0;
    if (cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, ordinal_) != cudaSuccess) {
        cudaGetLastError();
        has_pools = 0;
    }
    if (has_pools != 0) {
        cudaMemPoolProps wanted;
        std::memset(&wanted, 0, sizeof wanted);
        wanted.allocType = cudaMemAllocationTypePinned;
        wanted.handleTypes = cudaMemHandleTypeNone;
        wanted.location.type = cudaMemLocationTypeDevice;
        wanted.location.id = ordinal_;
        void *made = nullptr;
        cudaMemPool_t pool = nullptr;
        const cudaError_t error = cudaMemPoolCreate(&pool, &wanted);
        made = pool;
        const int32_t created = check_made(error, &made, "creating the workspace pool");
        pool_ = static_cast<cudaMemPool_t>(made);
        return created;
    }
    cache_.reset(new (std::nothrow) gpu::StreamCache(*this));
    if (cache_ == nullptr) return fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "no memory for the workspace cache");
    return ATTILE_OK;
}

int32_t CudaDevice::resources(const void *kernel, KernelResources *found) {
    return kernels_.resources(kernel, found, [&](KernelResources *read) {
        cudaFuncAttributes attributes;
        const int32_t status = check(cudaFuncGetAttributes(&attributes, kernel), "reading a kernel's resources");
        if (status != ATTILE_OK) return status;
        read->registers = attributes.numRegs;
        read->shared_static = static_cast<int32_t>(attributes.sharedSizeBytes);
        read->local_bytes = static_cast<int32_t>(attributes.localSizeBytes);
        read->max_threads = attributes.maxThreadsPerBlock;
        read->binary_version = attributes.binaryVersion;
        read->source_version = attributes.ptxVersion;
        return status;
    });
}

int32_t CudaDevice::function_of(const void *kernel, std::size_t shared, CUfunction *function) {
    void *found = nullptr;
    const int32_t status = kernels_.function(kernel, &found, [&](void **asked) {
        cudaFunction_t of_runtime = nullptr;
        const int32_t told = check(cudaGetFuncBySymbol(&of_runtime, kernel), "looking up a kernel");
        *asked = of_runtime;
        return told;
    });
    if (status != ATTILE_OK) return status;
    *function = static_cast<CUfunction>(found);
    return kernels_.allow_shared(kernel, shared, [&] {
        // Said to the runtime, which is asked for the occupancy, and of the function, which the driver launches.
        const int bytes = static_cast<int>(shared);
        cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
        if (error == cudaSuccess)
            error = static_cast<cudaError_t>(driver_.function_set(*function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes));
        if (error != cudaErrorInvalidValue) return check(error, "opting in to shared memory");
        cudaGetLastError();
        return fail(ATTILE_ERROR_DEVICE_LAUNCH, "CUDA device %d has no %lld bytes of shared memory for a block", ordinal_,
                    static_cast<long long>(shared));
    });
}

int32_t CudaDevice::occupancy(const void *kernel, int32_t threads, std::size_t shared, int32_t *blocks_per_unit) {
    CUfunction function = nullptr;
    const int32_t status = function_of(kernel, shared, &function);
    if (status != ATTILE_OK) return status;
    return kernels_.occupancy(kernel, threads, shared, blocks_per_unit, [&](int *blocks) {
        return check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, threads, shared), "asking for a kernel's occupancy");
    });
}

// By the driver, which takes less time than the runtime above it. A function is of the device's own context: for a stream of another one,
// as a green context's, the kernel is looked up there.
template <class Launch>
int32_t CudaDevice::launch_by(const void *kernel, std::size_t shared, const Launch &launch) {
    CUfunction function = nullptr;
    const int32_t status = function_of(kernel, shared, &function);
    if (status != ATTILE_OK) return status;
    CUresult result = launch(function);
#if CUDART_VERSION >= 12010
    cudaKernel_t anywhere = nullptr;
    if (result == CUDA_ERROR_INVALID_HANDLE && cudaGetKernel(&anywhere, kernel) == cudaSuccess)
        result = launch(reinterpret_cast<CUfunction>(anywhere));
#endif
    return check(static_cast<cudaError_t>(result), "launching a kernel");
}

int32_t CudaDevice::launch(const void *kernel, Dim3 grid, Dim3 block, std::size_t shared, void **arguments, Stream stream) {
    return launch_by(kernel, shared, [&](CUfunction function) {
        return driver_.launch(function, grid.x, grid.y, grid.z, block.x, block.y, block.z, static_cast<unsigned int>(shared),
                              static_cast<CUstream>(stream), arguments, nullptr);
    });
}

int32_t CudaDevice::launch_early(const void *kernel, Dim3 grid, Dim3 block, std::size_t shared, void **arguments, Stream stream) {
#if defined(ATTILE_GPU_HAS_SM90)
    // Code for older devices, though it runs here, does not wait.
    KernelResources found;
    const int32_t status = resources(kernel, &found);
    if (status != ATTILE_OK) return status;
    LaunchExtras extras;
    extras.overlaps = found.source_version >= 90;
    if (extras.overlaps) return launch_with(extras, kernel, grid, block, shared, arguments, stream);
#endif
    return launch(kernel, grid, block, shared, arguments, stream);
}

#if defined(ATTILE_GPU_HAS_SM90)
int32_t CudaDevice::launch_with(const LaunchExtras &extras, const void *kernel, Dim3 grid, Dim3 block, std::size_t shared, void **arguments,
                                Stream stream) {
    CUlaunchAttribute attributes[3] = {};
    CUlaunchConfig config = {};
    config.gridDimX = grid.x;
    config.gridDimY = grid.y;
    config.gridDimZ = grid.z;
    config.blockDimX = block.x;
    config.blockDimY = block.y;
    config.blockDimZ = block.z;
    config.sharedMemBytes = static_cast<unsigned int>(shared);
    config.hStream = static_cast<CUstream>(stream);
    config.attrs = attributes;
    if (extras.cluster > 1) {
        CUlaunchAttribute &attribute = attributes[config.numAttrs++];
        attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attribute.value.clusterDim.x = extras.cluster;
        attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
    }
    // Drivers since 12.3 record such launches in a graph.
    constexpr int kOverlapsInGraphs = 12030;
    if (extras.overlaps && ((driver_.version >= kOverlapsInGraphs && !extras.together) || !capturing(stream))) {
        CUlaunchAttribute &attribute = attributes[config.numAttrs++];
        attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attribute.value.programmaticStreamSerializationAllowed = 1;
    }
    if (extras.together) {
        CUlaunchAttribute &attribute = attributes[config.numAttrs++];
        attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        attribute.value.cooperative = 1;
    }
    return launch_by(kernel, shared, [&](CUfunction function) { return driver_.launch_with(&config, function, arguments, nullptr); });
}
#else  // Only kernels for Hopper ask for it.
int32_t CudaDevice::launch_with(const LaunchExtras &extras, const void *kernel, Dim3 grid, Dim3 block, std::size_t shared, void **arguments,
                                Stream stream) {
    return Device::launch_with(extras, kernel, grid, block, shared, arguments, stream);
}
#endif

}  // namespace attile::cuda
