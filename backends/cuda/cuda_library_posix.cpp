// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include "cuda_library.h"

namespace attile::cuda {

const char *const driver_library_name = "libcuda.so.1";

void *open_driver_library(std::string *words) {
    void *library = dlopen(driver_library_name, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) return library;
    const char *said = dlerror();
    *words = said != nullptr ? said : std::string(driver_library_name) + " not found";
    return nullptr;
}

void *library_symbol(void *library, const char *name) { return dlsym(library, name); }
void close_library(void *library) { dlclose(library); }

}  // namespace attile::cuda
