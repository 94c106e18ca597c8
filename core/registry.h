// SPDX-License-Identifier: Apache-2.0
// The backends that are at hand: built in, registered by the program, or loaded from a file. None ever goes away. And the one loader, for
// plugins of other kinds, too.
#ifndef ATTILE_CORE_REGISTRY_H
#define ATTILE_CORE_REGISTRY_H

#include <string>

#include "fork.h"
#include "handshake.h"
#include "loader.h"

namespace attile::core {

// The backend of that name, loading it if need be. `label` is what the report calls the candidate. On failure a code, and in `why` the
// reason.
int32_t find_backend(const std::string &name, const std::string &label, const Backend **backend, std::string *why);

// ATTILE_OK if this thread may look for plugins while `hold` lives.
int32_t check_hold(const RegistryHold &hold, std::string *why);

// Has the loader find and open the plugin and meet it. To be called with the registry held.
int32_t load_plugin(const Plugin &plugin, std::string *why);

}  // namespace attile::core

#endif
