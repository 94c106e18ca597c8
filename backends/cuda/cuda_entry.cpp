// SPDX-License-Identifier: Apache-2.0
// The CUDA backend's root: finds the driver, says which devices can be used, opens one. All else is in gpu.
#include <cstdio>
#include <exception>
#include <string>

#include "cuda_device.h"
#include "host/context.h"
#include "rows/reduce.h"

namespace attile::cuda {
namespace {

using gpu::fail;

// Refuses where the driver or the device cannot run this build; on success `driver` is set.
int32_t examine(int32_t device, const Driver **found_driver, int *device_count, char *name, int name_bytes) {
    std::string reason;
    const Driver *found = driver(&reason);
    if (found == nullptr) return fail(ATTILE_ERROR_BACKEND_REFUSED, "%s", reason.c_str());
    int version = 0;
    const CUresult told = found->driver_version(&version);
    if (told != CUDA_SUCCESS)
        return fail(ATTILE_ERROR_BACKEND_REFUSED, "the NVIDIA driver does not say its version: %s", found->text(told).c_str());
    // Within one major version any driver runs any runtime.
    if (version / 1000 < CUDART_VERSION / 1000) {
        return fail(ATTILE_ERROR_BACKEND_REFUSED, "the NVIDIA driver supports CUDA %d.%d, and this backend was built with CUDA %d.%d",
                    version / 1000, version % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    }
    const CUresult counted = found->device_count(device_count);
    if (counted != CUDA_SUCCESS) return fail(ATTILE_ERROR_BACKEND_REFUSED, "no CUDA device: %s", found->text(counted).c_str());
    if (*device_count == 0) return fail(ATTILE_ERROR_BACKEND_REFUSED, "the NVIDIA driver sees no device");
    if (device < 0 || device >= *device_count) {
        return fail(ATTILE_ERROR_BACKEND_REFUSED, "there is no CUDA device %d; there are %d, from 0", device, *device_count);
    }
    CUdevice handle = 0;
    const CUresult got = found->device_get(&handle, device);
    if (got != CUDA_SUCCESS) return fail(ATTILE_ERROR_BACKEND_REFUSED, "CUDA device %d: %s", device, found->text(got).c_str());
    int major = 0, minor = 0;
    CUresult said = found->device_name(name, name_bytes, handle);
    if (said == CUDA_SUCCESS) said = found->device_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle);
    if (said == CUDA_SUCCESS) said = found->device_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, handle);
    if (said != CUDA_SUCCESS)
        return fail(ATTILE_ERROR_BACKEND_REFUSED, "CUDA device %d does not say what it is: %s", device, found->text(said).c_str());
    if (10 * major + minor < ATTILE_CUDA_LOWEST_CAPABILITY) {
        return fail(ATTILE_ERROR_BACKEND_REFUSED, "CUDA device %d, %s, has compute capability %d.%d, and this build begins at %d.%d",
                    device, name, major, minor, ATTILE_CUDA_LOWEST_CAPABILITY / 10, ATTILE_CUDA_LOWEST_CAPABILITY % 10);
    }
    *found_driver = found;
    return ATTILE_OK;
}

int32_t probe(int32_t device, attile_backend_probe *found) {
    try {
        const Driver *found_driver = nullptr;
        int count = 0;
        const int32_t status = examine(device, &found_driver, &count, found->device_name, static_cast<int>(sizeof found->device_name));
        found->device_count = count;
        return status;
    } catch (const std::exception &) {
        return fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "host memory is exhausted");
    }
}

int32_t context_create(const attile_backend_options *options, void **state) {
    *state = nullptr;
    try {
        const Driver *found_driver = nullptr;
        int count = 0;
        char name[128];
        int32_t status = examine(options->device, &found_driver, &count, name, static_cast<int>(sizeof name));
        if (status != ATTILE_OK) return status;
        std::unique_ptr<gpu::Device> device;
        status = CudaDevice::open(*found_driver, options->device, gpu::some_kernel(), &device);
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
                                 "cuda",
                                 ATTILE_BACKEND_VERSION,
                                 probe,
                                 context_create,
                                 gpu::context_destroy,
                                 gpu::query_interface};

}  // namespace
}  // namespace attile::cuda

extern "C" ATTILE_ENTRY_EXPORT const attile_backend_v1 *ATTILE_BACKEND_ENTRY_SYMBOL(const attile_host_v1 *host);
extern "C" const attile_backend_v1 *ATTILE_BACKEND_ENTRY_SYMBOL(const attile_host_v1 *host) {
    attile::gpu::set_host(host);
    return &attile::cuda::kRoot;
}
