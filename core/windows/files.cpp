// SPDX-License-Identifier: Apache-2.0
#include "files.h"

#include <windows.h>

#include "windows/text.h"

namespace attile::core {
namespace {

bool is_slash(char c) { return c == '/' || c == '\\'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Those of the path itself, not of what a link leads to.
DWORD attributes(const std::string &path) {
    const std::wstring name = wide_path(path);
    return name.empty() ? INVALID_FILE_ATTRIBUTES : GetFileAttributesW(name.c_str());
}

}  // namespace

const char path_list_separator = ';';
const size_t path_capacity = 32768;
const char *const library_suffix = ".dll";

// C:\folder, or \\server\folder. What begins with one slash is of the current drive, and C:folder of that drive's current directory.
bool is_absolute(const std::string &path) {
    if (path.size() < 3) return false;
    return (is_letter(path[0]) && path[1] == ':' && is_slash(path[2])) || (is_slash(path[0]) && is_slash(path[1]) && !is_slash(path[2]));
}

bool is_there(const std::string &path) { return attributes(path) != INVALID_FILE_ATTRIBUTES; }

bool is_directory(const std::string &path) {
    const DWORD found = attributes(path);
    return found != INVALID_FILE_ATTRIBUTES && (found & FILE_ATTRIBUTE_DIRECTORY) != 0;
}

}  // namespace attile::core
