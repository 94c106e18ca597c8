// SPDX-License-Identifier: Apache-2.0
// Finds a plugin's file, a backend's or a transport's, in the directories that may hold one, and loads it.
#ifndef ATTILE_CORE_LOADER_H
#define ATTILE_CORE_LOADER_H

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace attile::core {

// What to look for, and what to do with what is found.
struct Plugin {
    std::string name;   // as the plugin calls itself
    std::string label;  // what the report calls the candidate
    std::string file;
    const char *entry;              // the symbol
    bool opens_no_library = false;  // what it is linked with has to be in the process already
    // Meets the plugin by its entry, which is from the file `where`: a status, and the reason in `why`.
    std::function<int32_t(void *entry, const std::string &where, std::string *why)> meet;
};

// Not thread-safe: the registry's lock guards it.
class Loader {
  public:
    // Loads the first usable file of that name. On failure the code and reason of the first file there was, or
    // ATTILE_ERROR_BACKEND_NOT_FOUND.
    int32_t load(const Plugin &plugin, std::string *why);

    // False, and in `why` how `path` falls short.
    bool add_directory(const char *path, std::string *why);

  private:
    struct Verdict {
        int32_t status;
        std::string why;
    };

    std::vector<std::string> directories() const;
    int32_t load_file(const std::string &path, const Plugin &plugin, std::string *why);

    std::vector<std::string> added_;  // latest first
    // Files that were opened and then refused: they stay in the process, so asking them again cannot change the answer.
    std::map<std::string, Verdict> refused_;
};

}  // namespace attile::core

#endif
