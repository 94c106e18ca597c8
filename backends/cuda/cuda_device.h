// SPDX-License-Identifier: Apache-2.0
// gpu::Device on the CUDA runtime. Works on the device's primary context, the one that the runtime of the calling program uses too, so
// pointers and streams are shared with it.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>

#include "cuda_driver.h"
#include "device.h"
#include "host/kernel_cache.h"
#include "host/own_memory.h"
#include "host/stream_cache.h"
#include "tensor_map_cache.h"

namespace attile::cuda {

using gpu::Dim3;
using gpu::Event;
using gpu::KernelResources;
using gpu::LaunchExtras;
using gpu::Stream;

class CudaDevice final : public gpu::Device {
  public:
    // Opens device `ordinal`; on failure returns a code and leaves `device` empty. `probe_kernel` is any kernel of the backend: whether
    // this build has code for the device is asked of it.
    static int32_t open(const Driver &driver, int ordinal, const void *probe_kernel, std::unique_ptr<gpu::Device> *device);
    ~CudaDevice() override;

    bool runs(const gpu::KernelSet &set) const override { return std::find(std::begin(sets_), std::end(sets_), &set) != std::end(sets_); }
    int32_t enter(bool is_cleaning_up) override;
    void leave() override;
    int32_t launch(const void *kernel, Dim3 grid, Dim3 block, std::size_t shared, void **arguments, Stream stream) override;
    int32_t launch_early(const void *kernel, Dim3 grid, Dim3 block, std::size_t shared, void **arguments, Stream stream) override;
    int32_t launch_with(const LaunchExtras &extras, const void *kernel, Dim3 grid, Dim3 block, std::size_t shared, void **arguments,
                        Stream stream) override;
    int32_t make_tensor_map(const void *data, int32_t dtype, const gpu::TensorMapShape &shape, gpu::TensorMap *map) override;
    int32_t resources(const void *kernel, KernelResources *found) override;
    int32_t occupancy(const void *kernel, int32_t threads, std::size_t shared, int32_t *blocks_per_unit) override;
    int32_t alloc(int32_t kind, int64_t bytes, void **pointer) override;
    int32_t free(int32_t kind, void *pointer) override;
    int32_t memory_kind(const void *pointer, int32_t *kind) override;
    int32_t memory_free(int64_t *bytes) override;
    int32_t copy(void *destination, const void *source, int64_t bytes, Stream stream) override;
    int32_t fill_zero(void *destination, int64_t bytes, Stream stream) override;
    int32_t prefetch(const void *pointer, int64_t bytes, int32_t kind, Stream stream) override;
    int32_t pool_alloc(int64_t bytes, Stream stream, void **pointer) override;
    int32_t pool_free(void *pointer, Stream stream) override;
    int32_t pool_keep(int64_t bytes) override;
    int32_t stream_create(Stream *stream) override;
    int32_t stream_destroy(Stream stream) override;
    int32_t check_stream(Stream stream) override;
    uint64_t stream_number(Stream stream) override;
    int32_t synchronize(Stream stream) override;
    int32_t synchronize_all() override;
    bool capturing(Stream stream) override;
    int32_t event_create(bool timed, Event *event) override;
    int32_t event_destroy(Event event) override;
    int32_t event_record(Event event, Stream stream) override;
    int32_t event_wait(Stream stream, Event event) override;
    int32_t event_synchronize(Event event) override;
    int32_t event_done(Event event, bool *is_done) override;
    int32_t event_elapsed(Event from, Event to, float *milliseconds) override;

  private:
    CudaDevice(const Driver &driver, int ordinal) : driver_(driver), ordinal_(ordinal) {}
    int32_t start(const void *probe_kernel);
    int32_t read_properties();
    int32_t find_kernels();  // The sets of kernels for tensor cores that this build has for the device, if any.
    // Turns a runtime error into a status and its sentence; remembers it if the device will not recover.
    int32_t check(cudaError_t error, const char *what);
    int32_t refuse_stream(const char *what) const;
    // The same of a call that makes something, which is null after a failure; such a call may also find no memory.
    int32_t check_made(cudaError_t error, void **made, const char *what);
    // Whether the stream is captured, asked of the driver once a call.
    enum class Capture : int { kNone, kOn, kUnknown };
    Capture capture_of(Stream stream);
    int32_t reach_memory_of(int device, const void *pointer);
    int32_t out_of_memory(int64_t bytes, const char *what_for);
    // What the driver launches for a kernel, opted in to that much dynamic shared memory.
    int32_t function_of(const void *kernel, std::size_t shared, CUfunction *function);
    template <class Launch>
    int32_t launch_by(const void *kernel, std::size_t shared, const Launch &launch);

    const Driver &driver_;
    int ordinal_;
    CUdevice handle_ = 0;
    CUcontext context_ = nullptr;
    cudaMemPool_t pool_ = nullptr;  // Or, where the driver has none:
    std::unique_ptr<gpu::StreamCache> cache_;
    const gpu::KernelSet *sets_[2] = {};  // That the device runs.
    std::atomic<int> fault_{0};           // The error that the device will not recover from.
    gpu::KernelCache kernels_;
    gpu::OwnMemory own_;
    TensorMapCache maps_;
};

}  // namespace attile::cuda
