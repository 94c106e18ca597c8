// SPDX-License-Identifier: Apache-2.0
#include "file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace attile::cli {
namespace {

constexpr int64_t kMostPerCall = int64_t{1} << 30;  // Linux transfers at most 2 GiB a call.

bool fill(int failed, const struct stat &status, FileFacts &facts) {
    if (failed != 0) return false;
    facts = {S_ISREG(status.st_mode), S_ISDIR(status.st_mode), status.st_size, status.st_dev, status.st_ino};
    return true;
}

size_t share(int64_t bytes) { return static_cast<size_t>(std::min(bytes, kMostPerCall)); }

}  // namespace

int open_to_read(const char *path) { return ::open(path, O_RDONLY | O_CLOEXEC); }
void close_file(int file) { close(file); }

bool facts_of_file(int file, FileFacts &facts) {
    struct stat status = {};
    return fill(fstat(file, &status), status, facts);
}

bool facts_of_path(const char *path, FileFacts &facts) {
    struct stat status = {};
    return fill(stat(path, &status), status, facts);
}

int64_t read_on(int file, void *to, int64_t bytes) {
    ssize_t n = 0;
    do n = ::read(file, to, share(bytes));
    while (n < 0 && errno == EINTR);
    return n;
}

int64_t read_at(int file, void *to, int64_t bytes, int64_t offset) {
    ssize_t n = 0;
    do n = ::pread(file, to, share(bytes), offset);
    while (n < 0 && errno == EINTR);
    return n;
}

}  // namespace attile::cli
