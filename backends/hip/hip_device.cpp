// SPDX-License-Identifier: Apache-2.0
// The device: opening and closing it, being current, errors, kernels. Memory, streams and events are in hip_memory.cpp.
#include "hip_device.h"

#include <algorithm>
#include <cstdio>
#include <new>

#include "hip_arch.h"
#include "host/status.h"

namespace attile::hip {

using gpu::fail;

namespace {

// What calls found, innermost last; leave() puts it back. Calls nest two deep at most.
struct Found {
    int device;
    hipStreamCaptureMode mode;
    bool has_mode;  // Whether it was exchanged.
};
thread_local Found found_before[4];
thread_local int enter_depth = 0;

// After these the device's context is of no use any more.
bool is_lasting(hipError_t error) {
    switch (error) {
        case hipErrorIllegalAddress:
        case hipErrorLaunchTimeOut:
        case hipErrorLaunchFailure:
        case hipErrorAssert:
        case hipErrorECCNotCorrectable:
        case hipErrorContextIsDestroyed:
        case hipErrorUnknown:
            return true;
        default:
            return false;
    }
}

// Not of memory, whatever the runtime ran out of: those codes promise that nothing was written, which only what allocates can say.
int32_t status_of(hipError_t error) {
    switch (error) {
        case hipErrorInvalidConfiguration:
        case hipErrorLaunchOutOfResources:
        case hipErrorNoBinaryForGpu:
        case hipErrorInvalidImage:
        case hipErrorInvalidKernelFile:
        case hipErrorInvalidDeviceFunction:
        case hipErrorNotFound:
            return ATTILE_ERROR_DEVICE_LAUNCH;
        default:
            return is_lasting(error) ? ATTILE_ERROR_DEVICE_FAULT : ATTILE_ERROR_DEVICE_RUNTIME;
    }
}

}  // namespace

int32_t HipDevice::open(const Runtime &runtime, int ordinal, const void *probe_kernel, std::unique_ptr<gpu::Device> *device) {
    std::unique_ptr<HipDevice> opened(new (std::nothrow) HipDevice(runtime, ordinal));
    if (opened == nullptr) return fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "no memory for the device's state");
    const int32_t status = opened->start(probe_kernel);
    if (status != ATTILE_OK) return status;
    *device = std::move(opened);
    return ATTILE_OK;
}

int32_t HipDevice::start(const void *probe_kernel) {
    const gpu::Entered entered(*this);
    if (entered.status() != ATTILE_OK) return entered.status();
    is_started_ = true;
    const int32_t status = read_properties();
    properties_.gradients_by = gpu::gradients_by_name(gpu::environment("ATTILE_HIP_GRADIENTS"));
    properties_.attention_by = gpu::attention_by_name(gpu::environment("ATTILE_HIP_ATTENTION"));
    if (status != ATTILE_OK) return status;
    KernelResources resources;
    const hipError_t error = runtime_.kernel_resources(probe_kernel, &resources);
    if (error != hipSuccess) {
        runtime_.clear_error();
        return fail(ATTILE_ERROR_BACKEND_REFUSED, "HIP device %d, %s: this build has no code for it that the runtime takes: %s", ordinal_,
                    properties_.arch, runtime_.error_string(error));
    }
    cache_.reset(new (std::nothrow) gpu::StreamCache(*this));
    if (cache_ == nullptr) return fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "no memory for the workspace cache");
    return ATTILE_OK;
}

HipDevice::~HipDevice() {
    if (!is_started_) return;
    const gpu::Entered entered(*this, true);
    cache_.reset();  // Though the device may not be current: what can be given back is.
    runtime_.clear_error();
}

int32_t HipDevice::enter(bool is_cleaning_up) {
    const int fault = fault_.load(std::memory_order_relaxed);
    if (fault != 0 && !is_cleaning_up) {
        return fail(ATTILE_ERROR_DEVICE_FAULT, "HIP device %d failed earlier in this context: %s", ordinal_,
                    runtime_.error_string(static_cast<hipError_t>(fault)));
    }
    int found = ordinal_;
    hipError_t error = runtime_.device_get(&found);
    if (error == hipSuccess && found != ordinal_) error = runtime_.device_set(ordinal_);
    if (error != hipSuccess) {
        runtime_.clear_error();
        return fail(ATTILE_ERROR_DEVICE_RUNTIME, "HIP device %d cannot be made current: %s", ordinal_, runtime_.error_string(error));
    }
    // While some thread captures a graph in its strict mode, other threads could not even allocate: nothing here depends on a capture.
    hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
    const bool has_mode = exchange_capture_mode(&mode);
    if (enter_depth < 4) found_before[enter_depth] = {found, mode, has_mode};
    ++enter_depth;
    return ATTILE_OK;
}

void HipDevice::leave() {
    --enter_depth;
    if (enter_depth >= 4) return;
    Found &found = found_before[enter_depth];
    if (found.has_mode) exchange_capture_mode(&found.mode);
    if (found.device != ordinal_ && runtime_.device_set(found.device) != hipSuccess) runtime_.clear_error();
}

bool HipDevice::exchange_capture_mode(hipStreamCaptureMode *mode) {
    if (runtime_.exchange_capture_mode == nullptr) return false;
    if (runtime_.exchange_capture_mode(mode) == hipSuccess) return true;
    runtime_.clear_error();
    return false;
}

int32_t HipDevice::check_stream(Stream stream) {
    int found = ordinal_;
    if (stream == nullptr || runtime_.stream_device == nullptr) return ATTILE_OK;
    if (runtime_.stream_device(static_cast<hipStream_t>(stream), &found) == hipSuccess)
        return found == ordinal_ ? ATTILE_OK : refuse_stream("the call");
    runtime_.clear_error();
    return ATTILE_OK;  // Its use will tell.
}

int32_t HipDevice::refuse_stream(const char *what) const {
    return fail(ATTILE_ERROR_INVALID_VALUE, "%s: the stream does not belong to HIP device %d", what, ordinal_);
}

int32_t HipDevice::check(hipError_t error, const char *what) {
    if (error == hipSuccess) return ATTILE_OK;
    runtime_.clear_error();
    if (error == hipErrorInvalidHandle || error == hipErrorInvalidDevice) return refuse_stream(what);
    if (is_lasting(error)) fault_.store(static_cast<int>(error), std::memory_order_relaxed);
    return fail(status_of(error), "%s on HIP device %d: %s (%s)", what, ordinal_, runtime_.error_string(error), runtime_.error_name(error));
}

int32_t HipDevice::check_made(hipError_t error, void **made, const char *what) {
    if (error == hipSuccess) return ATTILE_OK;
    *made = nullptr;  // A call that fails may leave something there, which nobody is to destroy.
    if (error != hipErrorOutOfMemory) return check(error, what);
    runtime_.clear_error();
    return fail(ATTILE_ERROR_OUT_OF_DEVICE_MEMORY, "%s on HIP device %d: %s", what, ordinal_, runtime_.error_string(error));
}

int32_t HipDevice::read_properties() {
    hipDeviceProp_t found;
    int32_t status = check(runtime_.device_properties(&found, ordinal_), "reading the device's properties");
    if (status != ATTILE_OK) return status;
    gpu::DeviceProperties &p = properties_;
    std::snprintf(p.name, sizeof p.name, "%.*s", static_cast<int>(sizeof p.name) - 1, found.name);
    p.index = ordinal_;
    const Arch arch = arch_of(found.gcnArchName, found.major, found.minor);
    p.device_type = arch.is_amd ? ATTILE_DEVICE_ROCM : ATTILE_DEVICE_CUDA;
    std::snprintf(p.arch, sizeof p.arch, "%s", arch.name);
    p.capability = arch.capability;
    p.compute_units = found.multiProcessorCount;
    p.lane_width = found.warpSize;
    p.threads_per_unit = found.maxThreadsPerMultiProcessor;
    p.blocks_per_unit = arch.blocks_per_unit;
    p.registers_per_unit = arch.registers_per_unit > 0 ? arch.registers_per_unit : found.regsPerBlock;
    p.shared_per_block = static_cast<int64_t>(found.sharedMemPerBlock);
    p.shared_opt_in = p.shared_per_block;
    p.shared_per_unit = std::max(p.shared_per_block, static_cast<int64_t>(found.maxSharedMemoryPerMultiProcessor));
    p.l2_bytes = found.l2CacheSize;
    p.clock_hz = 1e3 * found.clockRate;
    p.memory_total = static_cast<int64_t>(found.totalGlobalMem);
    p.peak_bandwidth = arch.transfers_per_clock * 1e3 * found.memoryClockRate * (found.memoryBusWidth / 8);
    p.peak_flops_f32 = 2.0 * arch.lanes_f32 * p.compute_units * p.clock_hz;
    p.peak_flops_f64 = 2.0 * arch.lanes_f64 * p.compute_units * p.clock_hz;
    int concurrent = 0;
    if (runtime_.device_attribute(&concurrent, hipDeviceAttributeConcurrentManagedAccess, ordinal_) != hipSuccess) runtime_.clear_error();
    has_page_faults_ = concurrent != 0;
    return ATTILE_OK;
}

int32_t HipDevice::resources(const void *kernel, KernelResources *found) {
    return kernels_.resources(kernel, found, [&](KernelResources *read) {
        return check(runtime_.kernel_resources(kernel, read), "reading a kernel's resources");
    });
}

int32_t HipDevice::allow_shared(const void *kernel, std::size_t shared) {
    return kernels_.allow_shared(kernel, shared,
                                 [&] { return check(runtime_.kernel_allow_shared(kernel, shared), "opting in to shared memory"); });
}

int32_t HipDevice::occupancy(const void *kernel, int32_t threads, std::size_t shared, int32_t *blocks_per_unit) {
    const int32_t status = allow_shared(kernel, shared);
    if (status != ATTILE_OK) return status;
    return kernels_.occupancy(kernel, threads, shared, blocks_per_unit, [&](int *blocks) {
        return check(runtime_.kernel_occupancy(kernel, threads, shared, blocks), "asking for a kernel's occupancy");
    });
}

int32_t HipDevice::launch(const void *kernel, Dim3 grid, Dim3 block, std::size_t shared, void **arguments, Stream stream) {
    const int32_t status = allow_shared(kernel, shared);
    if (status != ATTILE_OK) return status;
    return check(runtime_.kernel_launch(kernel, dim3(grid.x, grid.y, grid.z), dim3(block.x, block.y, block.z), shared, arguments,
                                        static_cast<hipStream_t>(stream)),
                 "launching a kernel");
}

}  // namespace attile::hip
