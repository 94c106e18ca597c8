// SPDX-License-Identifier: Apache-2.0
// A file that appears whole or not at all: written under a temporary name in the same directory and renamed at the end. The temporary file
// goes when the writer is destroyed before commit(), and when a signal ends the process, but for SIGKILL.
#pragma once

#include <cstdint>
#include <string>

struct stat;

namespace attile::cli {

// Is `path` the file, pipe or terminal behind standard output, as /dev/stdout is? Text must not go there then.
bool is_standard_output(const char *path);

class ReplaceFile {
  public:
    ReplaceFile() = default;
    ~ReplaceFile();
    ReplaceFile(const ReplaceFile &) = delete;
    ReplaceFile &operator=(const ReplaceFile &) = delete;

    // One at a time per process. A link is followed, also where it leads to nothing yet; a device or pipe, and what is standard output, is
    // written to directly. A regular file is replaced, so its other names keep what they held. The new one has its read, write and execute
    // permissions if it belonged to the same user, and those of any new file otherwise; never set-user-ID, set-group-ID or sticky.
    bool open(const char *path);
    bool write(const void *data, int64_t bytes);

    // Several writers of one file: one opens it, the others join it by the name that it has until then, and each writes its own places.
    // When all of them have committed but the first, it commits.
    bool join(const char *path, const std::string &temporary);
    bool write_at(int64_t offset, const void *data, int64_t bytes);
    const std::string &temporary() const { return temporary_; }  // Empty if the file is written directly.

    bool commit();

    const std::string &error() const { return error_; }

  private:
    bool fail(const std::string &what);
    void discard();
    bool open_in_place(int file);
    bool make_temporary(unsigned mode);
    bool copy_permissions(int from, const struct stat &old);

    int file_ = -1;
    std::string path_;       // As the user gave it, for messages.
    std::string target_;     // Where it ends up, links resolved.
    std::string temporary_;  // Empty: `target_` is written directly.
    std::string error_;
};

}  // namespace attile::cli
