// SPDX-License-Identifier: Apache-2.0
// Communicators of NCCL or RCCL.
#include "nccl_group.h"

#include <attile/attile.h>
#include <dlfcn.h>

#include "cli.h"

namespace attile::cli {

std::unique_ptr<NcclGroup> NcclGroup::make(int32_t device_type, const std::vector<int> &devices, std::string *why) {
    const char *const file = device_type == ATTILE_DEVICE_ROCM ? "librccl.so.1" : "libnccl.so.2";
    void *const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        *why = dlerror();
        return nullptr;
    }
    const auto init = reinterpret_cast<int (*)(void **, int, const int *)>(dlsym(library, "ncclCommInitAll"));
    const auto destroy = reinterpret_cast<Destroy>(dlsym(library, "ncclCommDestroy"));
    const auto words = reinterpret_cast<const char *(*)(int)>(dlsym(library, "ncclGetErrorString"));
    if (init == nullptr || destroy == nullptr || words == nullptr) {
        *why = std::string(file) + " lacks ncclCommInitAll, ncclCommDestroy or ncclGetErrorString";
        return nullptr;
    }
    std::vector<void *> comms(devices.size(), nullptr);
    const int result = init(comms.data(), static_cast<int>(devices.size()), devices.data());
    if (result != 0) {
        *why = text("%s: ncclCommInitAll failed: %s", file, words(result));
        return nullptr;
    }
    return std::unique_ptr<NcclGroup>(new NcclGroup(destroy, std::move(comms)));
}

NcclGroup::~NcclGroup() {
    for (void *comm : comms_) (void)destroy_(comm);
}

}  // namespace attile::cli
