// SPDX-License-Identifier: Apache-2.0
#include "idle_device.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "host/context.h"
#include "host/kernel_cache.h"
#include "planned_device.h"
#include "tensor_map_cache.h"

namespace attile::test {
namespace {

constexpr int64_t kMemoryBytes = int64_t{1} << 30;

// Knows its kernels and tensor maps as the vendors' devices do.
class IdleDevice final : public MemoryDevice {
  public:
    explicit IdleDevice(const DeviceRow &row) : MemoryDevice(kMemoryBytes), planned_(make_device(row)) {
        properties_ = planned_->properties();
    }
    ~IdleDevice() override { std::free(workspace_); }

    bool runs(const gpu::KernelSet &set) const override { return planned_->runs(set); }
    int32_t resources(const void *kernel, gpu::KernelResources *found) override {
        return kernels_.resources(kernel, found, [&](gpu::KernelResources *read) { return planned_->resources(kernel, read); });
    }
    int32_t occupancy(const void *kernel, int32_t threads, std::size_t shared, int32_t *blocks) override {
        return kernels_.occupancy(kernel, threads, shared, blocks,
                                  [&](int32_t *asked) { return planned_->occupancy(kernel, threads, shared, asked); });
    }
    int32_t launch_with(const gpu::LaunchExtras &, const void *, gpu::Dim3, gpu::Dim3, std::size_t, void **, gpu::Stream) override {
        return ATTILE_OK;
    }
    int32_t make_tensor_map(const void *data, int32_t dtype, const gpu::TensorMapShape &shape, gpu::TensorMap *map) override {
        const cuda::TensorMapCache::Key key(data, dtype, shape);
        if (!maps_.find(key, map)) maps_.keep(key, *map = {});
        return ATTILE_OK;
    }
    int32_t fill_zero(void *, int64_t, gpu::Stream) override { return ATTILE_OK; }
    int32_t memory_kind(const void *, int32_t *kind) override {
        *kind = ATTILE_MEMORY_DEVICE;
        return ATTILE_OK;
    }
    uint64_t stream_number(gpu::Stream) override { return 1; }
    int32_t pool_alloc(int64_t bytes, gpu::Stream, void **pointer) override {
        if (bytes > workspace_bytes_) {
            std::free(workspace_);
            workspace_ = std::malloc(static_cast<std::size_t>(bytes));
            workspace_bytes_ = workspace_ != nullptr ? bytes : 0;
        }
        *pointer = workspace_;
        return workspace_ != nullptr ? ATTILE_OK : ATTILE_ERROR_OUT_OF_DEVICE_MEMORY;
    }
    int32_t pool_free(void *, gpu::Stream) override { return ATTILE_OK; }

  private:
    std::unique_ptr<gpu::Device> planned_;
    gpu::KernelCache kernels_;
    cuda::TensorMapCache maps_;
    void *workspace_ = nullptr;
    int64_t workspace_bytes_ = 0;
};

const DeviceRow &row() {
    for (const DeviceRow &each : device_rows())
        if (std::strcmp(each.name, "H200") == 0) return each;
    std::abort();
}

int32_t probe(int32_t device, attile_backend_probe *found) {
    found->device_count = 1;
    std::snprintf(found->device_name, sizeof found->device_name, "%s", row().name);
    return device == 0 ? ATTILE_OK : ATTILE_ERROR_BACKEND_REFUSED;
}

int32_t context_create(const attile_backend_options *options, void **state) {
    return gpu::context_make(std::make_unique<IdleDevice>(row()), *options, state);
}

const attile_backend_v1 kRoot = {
    sizeof(attile_backend_v1), ATTILE_BACKEND_ABI_MAJOR, ATTILE_BACKEND_ABI_MINOR, 0, "idle", "1.0.0", probe, context_create,
    gpu::context_destroy,      gpu::query_interface};

const void *entry(const void *host) {
    gpu::set_host(static_cast<const attile_host_v1 *>(host));
    return &kRoot;
}

}  // namespace

void register_idle_backend() {
    read_kernels(ATTILE_KERNELS_TABLE);
    if (attile_register_backend(entry) != ATTILE_OK) std::abort();
}

}  // namespace attile::test
