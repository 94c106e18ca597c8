// SPDX-License-Identifier: Apache-2.0
// Finds a backend's file in the directories that may hold one, and loads it.
#ifndef ATTILE_CORE_LOADER_H
#define ATTILE_CORE_LOADER_H

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "handshake.h"

namespace attile::core {

// Not thread-safe: the registry's lock guards it.
class Loader {
  public:
    // Loads the first usable libattile_backend_<name>.so. On failure the code and reason of the first file there was, or
    // ATTILE_ERROR_BACKEND_NOT_FOUND.
    int32_t load(const std::string &name, const std::string &label, std::unique_ptr<Backend> *backend, std::string *why);

    // False, and in `why` how `path` falls short.
    bool add_directory(const char *path, std::string *why);

  private:
    struct Verdict {
        int32_t status;
        std::string why;
    };

    std::vector<std::string> directories() const;
    int32_t load_file(const std::string &path, const std::string &name, std::unique_ptr<Backend> *backend, std::string *why);

    std::vector<std::string> added_;  // latest first
    // Files that were opened and then refused: they stay in the process, so asking them again cannot change the answer.
    std::map<std::string, Verdict> refused_;
};

}  // namespace attile::core

#endif
