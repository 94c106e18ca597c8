// SPDX-License-Identifier: Apache-2.0
// What the loader asks about paths. They are UTF-8 on Windows, and what the system takes elsewhere; '/' parts them everywhere.
#ifndef ATTILE_CORE_FILES_H
#define ATTILE_CORE_FILES_H

#include <cstddef>
#include <string>

namespace attile::core {

extern const char path_list_separator;    // between the directories of a variable
extern const size_t path_capacity;        // bytes of the longest path, its terminating zero counted
extern const char *const library_suffix;  // of plugins' files

// Whether the path says where it begins, whatever the current directory is, and the current drive on Windows.
bool is_absolute(const std::string &path);

// Whether something has that name, be it a link that leads nowhere: that is a file which cannot be loaded, not one that is not there.
bool is_there(const std::string &path);

bool is_directory(const std::string &path);

}  // namespace attile::core

#endif
