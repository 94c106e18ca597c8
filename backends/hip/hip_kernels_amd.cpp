// SPDX-License-Identifier: Apache-2.0
// Kernels of the AMD platform, without linking the HIP runtime.
//
// The compiler makes every file with kernels register its code objects before main, by functions that libamdhip64 exports. Linked, that
// library would have to be there for the backend to load at all. So these functions are defined here, hidden in the plugin: they write down
// what is registered, and once a device is opened the images go through hipModuleLoadData, once for each device, when a kernel of theirs is
// first asked for.
#include "hip_kernels_amd.h"

#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace attile::hip {
namespace {

// What clang hands over: its magic number, a version, and the bundle of code objects.
struct FatBinary {
    uint32_t magic;
    uint32_t version;
    const void *image;
    void *unused;
};

struct Image {
    const void *bytes;
    std::map<int, hipModule_t> modules;  // By device.
};
struct Kernel {
    std::size_t image;
    const char *name;
    std::map<int, hipFunction_t> functions;  // By device.
};
struct Registry {
    std::mutex lock;
    std::vector<Image> images;
    std::unordered_map<const void *, Kernel> kernels;
};
// Filled by constructors in no known order, and never destroyed: kernels may be asked for until the process ends.
Registry &registry() {
    static Registry *const the_registry = new Registry;
    return *the_registry;
}

ModuleFunctions modules;

hipError_t find(const void *kernel, hipFunction_t *found) {
    int device = 0;
    hipError_t error = modules.device_get(&device);
    if (error != hipSuccess) return error;
    Registry &all = registry();
    const std::lock_guard<std::mutex> lock(all.lock);
    const auto entry = all.kernels.find(kernel);
    if (entry == all.kernels.end()) return hipErrorInvalidDeviceFunction;
    Kernel &wanted = entry->second;
    const auto known = wanted.functions.find(device);
    if (known != wanted.functions.end()) {
        *found = known->second;
        return hipSuccess;
    }
    Image &image = all.images[wanted.image];
    hipModule_t &module = image.modules[device];
    if (module == nullptr) {
        error = modules.load(&module, image.bytes);
        if (error != hipSuccess) {
            module = nullptr;
            return error;
        }
    }
    error = modules.function(found, module, wanted.name);
    if (error == hipSuccess) wanted.functions[device] = *found;
    return error;
}

hipError_t launch(const void *kernel, dim3 grid, dim3 block, std::size_t shared, void **arguments, hipStream_t stream) {
    hipFunction_t function = nullptr;
    const hipError_t error = find(kernel, &function);
    if (error != hipSuccess) return error;
    return modules.launch(function, grid.x, grid.y, grid.z, block.x, block.y, block.z, static_cast<unsigned int>(shared), stream, arguments,
                          nullptr);
}

hipError_t resources(const void *kernel, gpu::KernelResources *found) {
    hipFunction_t function = nullptr;
    hipError_t error = find(kernel, &function);
    const auto read = [&](hipFunction_attribute which) {
        int value = 0;
        if (error == hipSuccess) error = modules.attribute(&value, which, function);
        return static_cast<int32_t>(value);
    };
    found->registers = read(HIP_FUNC_ATTRIBUTE_NUM_REGS);
    found->shared_static = read(HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
    found->local_bytes = read(HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
    found->max_threads = read(HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    found->binary_version = read(HIP_FUNC_ATTRIBUTE_BINARY_VERSION);
    return error;
}

hipError_t occupancy(const void *kernel, int threads, std::size_t shared, int *blocks) {
    hipFunction_t function = nullptr;
    const hipError_t error = find(kernel, &function);
    return error != hipSuccess ? error : modules.occupancy(blocks, function, threads, shared);
}

// Nothing to opt in to: a block can have all of the local data share.
hipError_t allow_shared(const void *, std::size_t) { return hipSuccess; }

}  // namespace

void use_modules(const ModuleFunctions &functions, Runtime *runtime) {
    modules = functions;
    runtime->kernel_launch = launch;
    runtime->kernel_resources = resources;
    runtime->kernel_occupancy = occupancy;
    runtime->kernel_allow_shared = allow_shared;
}

}  // namespace attile::hip

// What clang's code for a file with kernels calls. An exception here, before main, could only end the process: the registry's few nodes
// are all that is allocated.
extern "C" {

void **__hipRegisterFatBinary(const void *data);
void **__hipRegisterFatBinary(const void *data) {
    auto &all = attile::hip::registry();
    all.images.push_back({static_cast<const attile::hip::FatBinary *>(data)->image, {}});
    // The handle is the image's number and one, since nullptr would mean none.
    return reinterpret_cast<void **>(all.images.size());
}

void __hipRegisterFunction(void **handle, const void *host_function, char *, const char *device_name, unsigned int, void *, void *, void *,
                           void *, int *);
void __hipRegisterFunction(void **handle, const void *host_function, char *, const char *device_name, unsigned int, void *, void *, void *,
                           void *, int *) {
    attile::hip::registry().kernels[host_function] = {reinterpret_cast<std::size_t>(handle) - 1, device_name, {}};
}

void __hipRegisterVar(void **, void *, char *, char *, int, std::size_t, int, int);
void __hipRegisterVar(void **, void *, char *, char *, int, std::size_t, int, int) {}

// Modules go with the process.
void __hipUnregisterFatBinary(void **);
void __hipUnregisterFatBinary(void **) {}

// Behind the compiler's host stubs, which are never called: kernels are launched through gpu::Device.
hipError_t __hipPopCallConfiguration(dim3 *, dim3 *, std::size_t *, hipStream_t *) { return hipErrorNotSupported; }
hipError_t hipLaunchKernel(const void *, dim3, dim3, void **, std::size_t, hipStream_t) { return hipErrorNotSupported; }

}  // extern "C"
