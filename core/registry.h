// SPDX-License-Identifier: Apache-2.0
// The backends that are at hand: built in, registered by the program, or loaded from a file. None ever goes away.
#ifndef ATTILE_CORE_REGISTRY_H
#define ATTILE_CORE_REGISTRY_H

#include <string>

#include "handshake.h"

namespace attile::core {

// The backend of that name, loading it if need be. `label` is what the report calls the candidate. On failure a code, and in `why` the
// reason.
int32_t find_backend(const std::string &name, const std::string &label, const Backend **backend, std::string *why);

}  // namespace attile::core

#endif
