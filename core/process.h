// SPDX-License-Identifier: Apache-2.0
// Forks: tells a forked child from its parent, cheaply enough to ask on every call; and has something done at each.
#ifndef ATTILE_CORE_PROCESS_H
#define ATTILE_CORE_PROCESS_H

#include <cstdint>

namespace attile::core {

// A number that never changes within a process and differs from that of every process it was forked from.
uint64_t process_generation();

// In a forked child, for kernels that say they have told it and have not: qemu-user 7.2 takes MADV_WIPEONFORK and does nothing.
void forget_generation();

// Has the system call these when the process forks: before, and afterwards in the parent and in the child. False if there was no memory for
// that. True where processes do not fork.
bool call_at_fork(void (*before)(), void (*in_parent)(), void (*in_child)());

}  // namespace attile::core

#endif
