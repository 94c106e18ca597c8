// SPDX-License-Identifier: Apache-2.0
// The system's loader, five functions wide.
#ifndef ATTILE_CORE_SHARED_LIBRARY_H
#define ATTILE_CORE_SHARED_LIBRARY_H

#include <string>

namespace attile::core {

// Opens a regular file for good, all its symbols resolved and none of them offered to others. NULL, and the system's words in `error`,
// if that fails. `path` is absolute.
void *open_shared_library(const std::string &path, std::string *error);

// The first of the libraries that the file is linked with which is not in this process; empty if all are, or if the file is none that the
// system's loader would take. Opens nothing; what is in the process stays in it.
std::string missing_library(const std::string &path);

// NULL, and the system's words in `error`, if the library has no such symbol.
void *shared_library_symbol(void *library, const char *name, std::string *error);

// The symbol that the process itself would find, its libraries searched in their order; NULL if there is none.
void *process_symbol(const char *name);

// The directory that this very library was loaded from, symbolic links resolved; empty, and the reason in `error`, if unknown.
std::string own_directory(std::string *error);

}  // namespace attile::core

#endif
