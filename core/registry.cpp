// SPDX-License-Identifier: Apache-2.0
// The registry. One lock is held while a backend is met or loaded, so each is met once, whatever the number of threads that want it.
#include "registry.h"

#include <memory>
#include <mutex>
#include <vector>

#include "build_config.h"
#include "guard.h"
#include "loader.h"
#include "log.h"
#include "report.h"
#include "status.h"

namespace attile::core {
namespace {

struct Registry {
    std::mutex lock;
    std::vector<std::unique_ptr<Backend>> backends;
    Loader loader;
};

// Never destroyed: backends have threads of their own, and the program may call until its last instruction.
Registry &registry() {
    static Registry *const instance = new Registry;
    return *instance;
}

// These three with the lock held.
const Backend *known_backend(const Registry &all, const std::string &name) {
    for (const auto &backend : all.backends) {
        if (backend->name == name) return backend.get();
    }
    return nullptr;
}

const BuiltinBackend *builtin_backend(const std::string &name) {
    for (const BuiltinBackend *builtin = builtin_backends; builtin->name != nullptr; ++builtin) {
        if (name == builtin->name) return builtin;
    }
    return nullptr;
}

const Backend *keep(Registry *all, std::unique_ptr<Backend> backend) {
    log(ATTILE_LOG_DEBUG, "backend '%s' %s accepted (%s)", backend->name.c_str(), backend->version.c_str(), backend->where.c_str());
    all->backends.push_back(std::move(backend));
    return all->backends.back().get();
}

}  // namespace

int32_t find_backend(const std::string &name, const std::string &label, const Backend **backend, std::string *why) {
    Registry &all = registry();
    const std::lock_guard<std::mutex> hold(all.lock);
    *backend = known_backend(all, name);
    if (*backend != nullptr) return ATTILE_OK;
    std::unique_ptr<Backend> met;
    const BuiltinBackend *builtin = builtin_backend(name);
    int32_t status = ATTILE_OK;
    if (builtin != nullptr) {
        status = meet_backend(builtin->entry, builtin->name, "built in", &met, why);
        if (status != ATTILE_OK) report_candidate(label, "built in", status, *why);
    } else {
        status = all.loader.load(name, label, &met, why);
    }
    if (status == ATTILE_OK) *backend = keep(&all, std::move(met));
    return status;
}

}  // namespace attile::core

extern "C" {

int32_t attile_register_backend(const void *(*entry)(const void *host)) {
    using namespace attile::core;
    return guarded([&]() -> int32_t {
        if (entry == nullptr) return fail(ATTILE_ERROR_NULL_ARGUMENT, "attile_register_backend: entry is NULL");
        std::unique_ptr<Backend> met;
        std::string why;
        Registry &all = registry();
        const std::lock_guard<std::mutex> hold(all.lock);
        const int32_t status =
            meet_backend(reinterpret_cast<attile_backend_entry_fn>(entry), nullptr, "registered by the program", &met, &why);
        if (status != ATTILE_OK) return fail(status, "attile_register_backend: the backend is refused: %s", why.c_str());
        if (known_backend(all, met->name) != nullptr || builtin_backend(met->name) != nullptr) {
            return fail(ATTILE_ERROR_BACKEND_EXISTS, "attile_register_backend: there is a backend '%s' already", met->name.c_str());
        }
        keep(&all, std::move(met));
        return ATTILE_OK;
    });
}

int32_t attile_add_backend_directory(const char *path) {
    using namespace attile::core;
    return guarded([&]() -> int32_t {
        if (path == nullptr) return fail(ATTILE_ERROR_NULL_ARGUMENT, "attile_add_backend_directory: path is NULL");
        std::string why;
        Registry &all = registry();
        const std::lock_guard<std::mutex> hold(all.lock);
        if (!all.loader.add_directory(path, &why)) {
            return fail(ATTILE_ERROR_INVALID_VALUE, "attile_add_backend_directory: path %s", why.c_str());
        }
        return ATTILE_OK;
    });
}

}  // extern "C"
