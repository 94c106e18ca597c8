// SPDX-License-Identifier: Apache-2.0
// A file that appears whole or not at all: written under a temporary name in the same directory and renamed at the end. The temporary file
// goes when the writer is destroyed before commit(), and when SIGINT, SIGTERM or SIGHUP ends the process.
#pragma once

#include <cstdint>
#include <string>

namespace attile::cli {

class ReplaceFile {
  public:
    ReplaceFile() = default;
    ~ReplaceFile();
    ReplaceFile(const ReplaceFile &) = delete;
    ReplaceFile &operator=(const ReplaceFile &) = delete;

    // An existing regular file keeps its permissions; a link is followed; a device or pipe is written to directly. One at a time per
    // process.
    bool open(const char *path);
    bool write(const void *data, int64_t bytes);
    bool commit();

    const std::string &error() const { return error_; }

  private:
    bool fail(const std::string &what);
    void discard();

    int file_ = -1;
    std::string path_;       // As the user gave it, for messages.
    std::string target_;     // Where it ends up, links resolved.
    std::string temporary_;  // Empty: `target_` is written directly.
    std::string error_;
};

}  // namespace attile::cli
