// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdlib>

#include "reference_system.h"

namespace attile::reference {

void read_memory(std::int64_t *total, std::int64_t *free) {
    const std::int64_t page = sysconf(_SC_PAGESIZE);
    const std::int64_t pages = sysconf(_SC_PHYS_PAGES);
    const std::int64_t available = sysconf(_SC_AVPHYS_PAGES);
    if (page > 0 && pages > 0) *total = pages * page;
    if (page > 0 && available > 0) *free = available * page;
}

void *allocate_aligned(std::size_t alignment, std::size_t bytes) { return std::aligned_alloc(alignment, bytes); }
void free_aligned(void *memory) { std::free(memory); }

}  // namespace attile::reference
