// SPDX-License-Identifier: Apache-2.0
// What the build decides: the backends linked in, the order of "auto", the directory of an installation. Defined by a file that CMake
// generates, so that no backend's name stands in the core's sources.
#ifndef ATTILE_CORE_BUILD_CONFIG_H
#define ATTILE_CORE_BUILD_CONFIG_H

#include <attile/attile_backend.h>

namespace attile::core {

struct BuiltinBackend {
    const char *name;
    attile_backend_entry_fn entry;
};

// Ends with an entry of NULLs.
extern const BuiltinBackend builtin_backends[];

extern const char *const auto_order;            // "name,name", best first
extern const char *const installed_directory;   // absolute; NULL on Windows
extern const char *const backend_subdirectory;  // looked for beside libattile; NULL: libattile is static, and has no place of its own

}  // namespace attile::core

#endif
