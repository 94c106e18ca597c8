// SPDX-License-Identifier: Apache-2.0
// Reads the environment. The kernel's AT_SECURE is the criterion, the same that the system's loader goes by.
#include "environment.h"

#include <sys/auxv.h>

#include <cstdlib>

namespace attile::core {

bool privileged_process() { return getauxval(AT_SECURE) != 0; }

const char *environment(const char *name) { return privileged_process() ? nullptr : std::getenv(name); }

bool environment_ignored(const char *name) { return privileged_process() && std::getenv(name) != nullptr; }

}  // namespace attile::core
