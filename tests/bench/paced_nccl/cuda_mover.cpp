// SPDX-License-Identifier: Apache-2.0
// CUDA's driver, found at run time and declared in words of our own, so that no toolkit is needed to build.
#include <dlfcn.h>

#include <cstdint>

#include "mover.h"

namespace attile::bench {
namespace {

using Address = unsigned long long;  // CUdeviceptr

struct Driver {
    int (*init)(unsigned flags);
    int (*error_string)(int result, const char **text);
    int (*device_get)(int *device, int ordinal);
    int (*primary_retain)(void **context, int device);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*allocate)(Address *memory, std::size_t bytes);
    int (*release)(Address memory);
    int (*copy)(Address to, Address from, std::size_t bytes, void *stream);
    int (*synchronize)(void *stream);
};

template <typename Function>
void resolve(void *library, const char *name, Function **function, std::string *why) {
    *function = reinterpret_cast<Function *>(dlsym(library, name));
    if (*function == nullptr && why->empty()) *why = std::string("libcuda.so.1 has no function ") + name;
}

std::string open_driver(Driver *driver) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return dlerror();
    std::string why;
    resolve(library, "cuInit", &driver->init, &why);
    resolve(library, "cuGetErrorString", &driver->error_string, &why);
    resolve(library, "cuDeviceGet", &driver->device_get, &why);
    resolve(library, "cuDevicePrimaryCtxRetain", &driver->primary_retain, &why);
    resolve(library, "cuCtxPushCurrent_v2", &driver->push, &why);
    resolve(library, "cuCtxPopCurrent_v2", &driver->pop, &why);
    resolve(library, "cuMemAlloc_v2", &driver->allocate, &why);
    resolve(library, "cuMemFree_v2", &driver->release, &why);
    resolve(library, "cuMemcpyDtoDAsync_v2", &driver->copy, &why);
    resolve(library, "cuStreamSynchronize", &driver->synchronize, &why);
    return why;
}

Address address_of(const void *memory) { return static_cast<Address>(reinterpret_cast<std::uintptr_t>(memory)); }

class CudaMover final : public Mover {
  public:
    // The primary context of the device, which the CUDA runtime uses, too. It stays retained until the process ends.
    std::string open() {
        std::string failed = open_driver(&driver_);
        int device = 0;
        if (failed.empty()) failed = said("cuInit", driver_.init(0));
        if (failed.empty()) failed = said("cuDeviceGet", driver_.device_get(&device, 0));
        if (failed.empty()) failed = said("cuDevicePrimaryCtxRetain", driver_.primary_retain(&context_, device));
        return failed;
    }
    std::string allocate(std::size_t bytes, void **memory) override {
        Address made = 0;
        std::string failed = within("cuMemAlloc", [&] { return driver_.allocate(&made, bytes); });
        *memory = reinterpret_cast<void *>(static_cast<std::uintptr_t>(made));
        return failed.empty() ? failed : failed + ", for " + std::to_string(bytes) + " bytes";
    }
    std::string release(void *memory) override {
        return within("cuMemFree", [&] { return driver_.release(address_of(memory)); });
    }
    std::string copy(void *to, const void *from, std::size_t bytes, void *stream) override {
        return within("cuMemcpyDtoDAsync", [&] { return driver_.copy(address_of(to), address_of(from), bytes, stream); });
    }
    std::string finish(void *stream) override {
        return within("cuStreamSynchronize", [&] { return driver_.synchronize(stream); });
    }

  private:
    std::string said(const char *name, int result) const {
        if (result == 0) return "";
        const char *text = nullptr;
        const bool known = driver_.error_string(result, &text) == 0 && text != nullptr;
        return std::string(name) + " failed: " + (known ? text : "error") + " (" + std::to_string(result) + ")";
    }
    // A call in the device's context, whichever the thread has.
    template <typename Call>
    std::string within(const char *name, Call &&call) const {
        std::string failed = said("cuCtxPushCurrent", driver_.push(context_));
        if (!failed.empty()) return failed;
        failed = said(name, call());
        void *popped = nullptr;
        const std::string left = said("cuCtxPopCurrent", driver_.pop(&popped));
        return failed.empty() ? left : failed;
    }

    Driver driver_{};
    void *context_ = nullptr;
};

}  // namespace

std::unique_ptr<Mover> make_cuda_mover(std::string *why) {
    auto made = std::make_unique<CudaMover>();
    *why = made->open();
    if (!why->empty()) return nullptr;
    return made;
}

}  // namespace attile::bench
