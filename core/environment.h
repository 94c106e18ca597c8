// SPDX-License-Identifier: Apache-2.0
// The one place that reads the environment, so that no variable steers a process that runs with somebody else's rights.
#ifndef ATTILE_CORE_ENVIRONMENT_H
#define ATTILE_CORE_ENVIRONMENT_H

namespace attile::core {

// True if the system marked this process as running with more rights than whoever started it (set-user-id, file capabilities).
bool privileged_process();

// The variable's value; NULL if it is unset, or if the process is privileged.
const char *environment(const char *name);

// True if the variable is set and environment() hides it.
bool environment_ignored(const char *name);

}  // namespace attile::core

#endif
