// SPDX-License-Identifier: Apache-2.0
// gpu::Device on the HIP runtime. Uses the device's primary context, the one that the runtime of the calling program uses too, so pointers
// and streams are shared with it.
#pragma once

#include <atomic>
#include <memory>

#include "device.h"
#include "hip_runtime_table.h"
#include "host/kernel_cache.h"
#include "host/stream_cache.h"

namespace attile::hip {

using gpu::Dim3;
using gpu::Event;
using gpu::KernelResources;
using gpu::Stream;

class HipDevice final : public gpu::Device {
  public:
    // Opens device `ordinal`; on failure returns a code and leaves `device` empty. `probe_kernel` is any kernel of the backend: whether
    // this build has code for the device is asked of it.
    static int32_t open(const Runtime &runtime, int ordinal, const void *probe_kernel, std::unique_ptr<gpu::Device> *device);
    ~HipDevice() override;

    int32_t enter(bool is_cleaning_up) override;
    void leave() override;
    int32_t launch(const void *kernel, Dim3 grid, Dim3 block, std::size_t shared, void **arguments, Stream stream) override;
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
    HipDevice(const Runtime &runtime, int ordinal) : runtime_(runtime), ordinal_(ordinal) {}
    int32_t start(const void *probe_kernel);
    bool exchange_capture_mode(hipStreamCaptureMode *mode);
    int32_t read_properties();
    // Turns a runtime error into a status and its sentence; remembers it if the device will not recover.
    int32_t check(hipError_t error, const char *what);
    int32_t refuse_stream(const char *what) const;
    // The same of a call that makes something, which is null after a failure; such a call may also find no memory.
    int32_t check_made(hipError_t error, void **made, const char *what);
    int32_t allow_shared(const void *kernel, std::size_t shared);

    const Runtime &runtime_;
    int ordinal_;
    bool is_started_ = false;
    bool has_page_faults_ = false;
    std::unique_ptr<gpu::StreamCache> cache_;  // HIP's own pools are missing or slow in versions that old cards are left with.
    std::atomic<int> fault_{0};                // The error that the device will not recover from.
    gpu::KernelCache kernels_;
};

}  // namespace attile::hip
