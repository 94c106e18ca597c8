// SPDX-License-Identifier: Apache-2.0
#include "files.h"

#include <sys/stat.h>

#include <climits>

namespace attile::core {

const char path_list_separator = ':';
const size_t path_capacity = PATH_MAX;
const char *const library_suffix = ".so";

bool is_absolute(const std::string &path) { return path.starts_with('/'); }

bool is_there(const std::string &path) {
    struct stat file;
    return lstat(path.c_str(), &file) == 0;
}

bool is_directory(const std::string &path) {
    struct stat file;
    return stat(path.c_str(), &file) == 0 && S_ISDIR(file.st_mode);
}

}  // namespace attile::core
