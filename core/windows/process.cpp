// SPDX-License-Identifier: Apache-2.0
// Processes do not fork on Windows.
#include "process.h"

namespace attile::core {

uint64_t process_generation() { return 1; }

void forget_generation() {}

bool call_at_fork(void (*)(), void (*)(), void (*)()) { return true; }

}  // namespace attile::core
