// SPDX-License-Identifier: Apache-2.0
// What this backend asks of the operating system.
#ifndef ATTILE_REFERENCE_SYSTEM_H
#define ATTILE_REFERENCE_SYSTEM_H

#include <cstddef>
#include <cstdint>

namespace attile::reference {

// Bytes that the machine has. What the system does not tell is left as it is.
void read_memory(std::int64_t *total, std::int64_t *free);

// NULL if there is none. `bytes` is a multiple of `alignment`, a power of two.
void *allocate_aligned(std::size_t alignment, std::size_t bytes);
void free_aligned(void *memory);

}  // namespace attile::reference

#endif
