// SPDX-License-Identifier: Apache-2.0
#include <windows.h>

#include "cuda_library.h"

namespace attile::cuda {

const char *const driver_library_name = "nvcuda.dll";

// Among the system's own libraries alone, where the driver puts it.
void *open_driver_library(std::string *words) {
    const HMODULE library = LoadLibraryExA(driver_library_name, nullptr, LOAD_LIBRARY_SEARCH_SYSTEM32);
    if (library == nullptr) *words = std::string(driver_library_name) + " cannot be loaded (error " + std::to_string(GetLastError()) + ")";
    return reinterpret_cast<void *>(library);
}

void *library_symbol(void *library, const char *name) {
    return reinterpret_cast<void *>(GetProcAddress(static_cast<HMODULE>(library), name));
}

void close_library(void *library) { FreeLibrary(static_cast<HMODULE>(library)); }

}  // namespace attile::cuda
