// SPDX-License-Identifier: Apache-2.0
// The loader. It never emulates the system's own search: a plugin is a file in one of a few absolute directories, or it is not found.
#include "loader.h"

#include <algorithm>
#include <cstring>

#include "build_config.h"
#include "environment.h"
#include "files.h"
#include "log.h"
#include "report.h"
#include "shared_library.h"
#include "surroundings.h"

namespace attile::core {
namespace {

constexpr const char *kPathVariable = "ATTILE_BACKEND_PATH";
constexpr size_t kMaxDirectories = 64;  // of the variable

void remark(const std::string &text) {
    report_remark(text);
    log(ATTILE_LOG_WARN, "%s", text.c_str());
}

void append_once(std::vector<std::string> *list, const std::string &directory) {
    if (std::find(list->begin(), list->end(), directory) == list->end()) list->push_back(directory);
}

void append_from_environment(std::vector<std::string> *list) {
    if (environment_ignored(kPathVariable)) remark(std::string(kPathVariable) + " is ignored: the process is privileged");
    const char *rest = environment(kPathVariable);
    size_t count = 0;
    while (rest != nullptr && *rest != '\0') {
        const char *const end = std::strchr(rest, path_list_separator);
        const size_t length = end != nullptr ? static_cast<size_t>(end - rest) : std::strlen(rest);
        const std::string directory(rest, length);
        rest += length + (end != nullptr ? 1 : 0);
        if (directory.empty()) continue;
        if (!is_absolute(directory) || length >= path_capacity) {
            remark(std::string(kPathVariable) + ": '" + directory.substr(0, 128) + "' is ignored: not an absolute path, or too long");
            continue;
        }
        if (++count > kMaxDirectories) {
            remark(std::string(kPathVariable) + ": directories after the first 64 are ignored");
            return;
        }
        append_once(list, directory);
    }
}

}  // namespace

// What the program itself added is its own code's word and counts always. Of the rest a privileged process searches only the directory that
// was fixed when libattile was built: where libattile lies may be somebody else's choice.
std::vector<std::string> Loader::directories() const {
    std::vector<std::string> list = added_;
    append_from_environment(&list);
    if (backend_subdirectory != nullptr && !privileged_process()) {
        std::string error;
        const std::string own = own_directory(&error);
        if (own.empty()) {
            remark("the directory beside libattile is not searched: " + error);
        } else {
            append_once(&list, own + "/" + backend_subdirectory);
        }
    }
    if (installed_directory != nullptr) append_once(&list, installed_directory);
    return list;
}

bool Loader::add_directory(const char *path, std::string *why) {
    const size_t length = strnlen(path, path_capacity);
    if (length == path_capacity) {
        *why = "is longer than the system allows";
        return false;
    }
    if (!is_absolute(path) || !is_directory(path)) {
        *why = std::string("is '") + path + "', expected the absolute path of a directory";
        return false;
    }
    added_.erase(std::remove(added_.begin(), added_.end(), path), added_.end());
    added_.insert(added_.begin(), path);
    return true;
}

int32_t Loader::load_file(const std::string &path, const Plugin &plugin, std::string *why) {
    const auto known = refused_.find(path);
    if (known != refused_.end()) {
        *why = known->second.why;
        return known->second.status;
    }
    if (plugin.opens_no_library) {
        const std::string missing = missing_library(path);
        if (!missing.empty()) {
            *why = "it needs " + missing + ", which this process has not loaded";
            return ATTILE_ERROR_BACKEND_REFUSED;  // Not kept: the program may load the library later.
        }
    }
    Surroundings surroundings;
    void *library = open_shared_library(path, why);
    surroundings.put_back(plugin.name);
    if (library == nullptr) return ATTILE_ERROR_BACKEND_LOAD;
    int32_t status = ATTILE_ERROR_BACKEND_INCOMPATIBLE;
    void *symbol = shared_library_symbol(library, plugin.entry, why);
    if (symbol != nullptr) status = plugin.meet(symbol, path, why);
    if (status != ATTILE_OK) refused_[path] = {status, *why};
    return status;
}

int32_t Loader::load(const Plugin &plugin, std::string *why) {
    int32_t first_status = ATTILE_OK;
    std::string first_why;
    std::string searched;
    for (const std::string &directory : directories()) {
        const std::string path = std::string(directory).append("/").append(plugin.file);
        searched += (searched.empty() ? "" : ", ") + directory;
        if (!is_there(path)) continue;
        const int32_t status = load_file(path, plugin, why);
        if (status == ATTILE_OK) return status;
        report_candidate(plugin.label, path, status, *why);
        if (first_status == ATTILE_OK) {
            first_status = status;
            first_why = why->starts_with(path) ? *why : path + ": " + *why;  // the system's loader mostly says the path itself
        }
    }
    if (first_status == ATTILE_OK) {
        first_status = ATTILE_ERROR_BACKEND_NOT_FOUND;
        first_why = "no file " + plugin.file + " in " + searched;
        report_candidate(plugin.label, "no file", first_status, first_why);
    }
    *why = first_why;
    return first_status;
}

}  // namespace attile::core
