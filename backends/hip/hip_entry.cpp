// SPDX-License-Identifier: Apache-2.0
// The HIP backend's root: finds the runtime, says which devices can be used, opens one. All else is in gpu.
#include <cstdio>
#include <exception>
#include <string>

#include "hip_device.h"
#include "host/context.h"
#include "rows/reduce.h"

namespace attile::hip {
namespace {

using gpu::fail;

// Refuses where there is no runtime or no such device; on success `found_runtime` is set.
int32_t examine(int32_t device, const Runtime **found_runtime, int *device_count, char *name, std::size_t name_bytes) {
    std::string reason;
    const Runtime *found = runtime(&reason);
    if (found == nullptr) return fail(ATTILE_ERROR_BACKEND_REFUSED, "%s", reason.c_str());
    const hipError_t counted = found->device_count(device_count);
    if (counted != hipSuccess) {
        *device_count = 0;
        found->clear_error();
        return fail(ATTILE_ERROR_BACKEND_REFUSED, "no HIP device: %s", found->error_string(counted));
    }
    if (*device_count == 0) return fail(ATTILE_ERROR_BACKEND_REFUSED, "the HIP runtime sees no device");
    if (device < 0 || device >= *device_count) {
        return fail(ATTILE_ERROR_BACKEND_REFUSED, "there is no HIP device %d; there are %d, from 0", device, *device_count);
    }
    hipDeviceProp_t properties;
    const hipError_t read = found->device_properties(&properties, device);
    if (read != hipSuccess) {
        found->clear_error();
        return fail(ATTILE_ERROR_BACKEND_REFUSED, "HIP device %d: %s", device, found->error_string(read));
    }
    std::snprintf(name, name_bytes, "%.*s", static_cast<int>(name_bytes) - 1, properties.name);
    *found_runtime = found;
    return ATTILE_OK;
}

int32_t probe(int32_t device, attile_backend_probe *found) {
    try {
        const Runtime *found_runtime = nullptr;
        int count = 0;
        const int32_t status = examine(device, &found_runtime, &count, found->device_name, sizeof found->device_name);
        found->device_count = count;
        return status;
    } catch (const std::exception &) {
        return fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "host memory is exhausted");
    }
}

int32_t context_create(const attile_backend_options *options, void **state) {
    *state = nullptr;
    try {
        const Runtime *found_runtime = nullptr;
        int count = 0;
        char name[128];
        int32_t status = examine(options->device, &found_runtime, &count, name, sizeof name);
        if (status != ATTILE_OK) return status;
        std::unique_ptr<gpu::Device> device;
        status = HipDevice::open(*found_runtime, options->device, gpu::some_kernel(), &device);
        if (status != ATTILE_OK) return status;
        return gpu::context_make(std::move(device), *options, state);
    } catch (const std::exception &) {
        return fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "host memory is exhausted");
    }
}

const attile_backend_v1 kRoot = {sizeof(attile_backend_v1),
                                 ATTILE_BACKEND_ABI_MAJOR,
                                 ATTILE_BACKEND_ABI_MINOR,
                                 gpu::kLowestHostMinor,
                                 "hip",
                                 ATTILE_BACKEND_VERSION,
                                 probe,
                                 context_create,
                                 gpu::context_destroy,
                                 gpu::query_interface};

}  // namespace
}  // namespace attile::hip

extern "C" ATTILE_ENTRY_EXPORT const attile_backend_v1 *ATTILE_BACKEND_ENTRY_SYMBOL(const attile_host_v1 *host);
extern "C" const attile_backend_v1 *ATTILE_BACKEND_ENTRY_SYMBOL(const attile_host_v1 *host) {
    attile::gpu::set_host(host);
    return &attile::hip::kRoot;
}
