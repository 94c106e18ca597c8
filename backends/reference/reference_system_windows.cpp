// SPDX-License-Identifier: Apache-2.0
#include <windows.h>

#include <malloc.h>

#include "reference_system.h"

namespace attile::reference {

void read_memory(std::int64_t *total, std::int64_t *free) {
    MEMORYSTATUSEX status{};
    status.dwLength = sizeof status;
    if (GlobalMemoryStatusEx(&status) == 0) return;
    *total = static_cast<std::int64_t>(status.ullTotalPhys);
    *free = static_cast<std::int64_t>(status.ullAvailPhys);
}

void *allocate_aligned(std::size_t alignment, std::size_t bytes) { return _aligned_malloc(bytes, alignment); }
void free_aligned(void *memory) { _aligned_free(memory); }

}  // namespace attile::reference
