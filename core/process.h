// SPDX-License-Identifier: Apache-2.0
// Tells a forked child from its parent, cheaply enough to ask on every call.
#ifndef ATTILE_CORE_PROCESS_H
#define ATTILE_CORE_PROCESS_H

#include <cstdint>

namespace attile::core {

// A number that never changes within a process and differs from that of every process it was forked from.
uint64_t process_generation();

}  // namespace attile::core

#endif
