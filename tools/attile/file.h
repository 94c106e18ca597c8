// SPDX-License-Identifier: Apache-2.0
// Reading files by their descriptors, each operating system its own way. Paths are UTF-8 on Windows.
#pragma once

#include <cstdint>

namespace attile::cli {

struct FileFacts {
    bool is_regular = false;
    bool is_directory = false;
    int64_t bytes = 0;
    uint64_t device = 0, number = 0;  // the same for every name of a file
};

// A descriptor, or -1 with errno set.
int open_to_read(const char *path);
void close_file(int file);

// False with errno set.
bool facts_of_file(int file, FileFacts &facts);
bool facts_of_path(const char *path, FileFacts &facts);

// How many bytes came, 0 at the end of the file, -1 with errno set. read_at() leaves the place where read_on() goes on.
int64_t read_on(int file, void *to, int64_t bytes);
int64_t read_at(int file, void *to, int64_t bytes, int64_t offset);

}  // namespace attile::cli
