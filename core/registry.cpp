// SPDX-License-Identifier: Apache-2.0
// The registry. One lock is held while a backend is met or loaded, so each is met once, whatever the number of threads that want it.
#include "registry.h"

#include <atomic>
#include <memory>

#include "build_config.h"
#include "files.h"
#include "guard.h"
#include "log.h"
#include "report.h"
#include "status.h"

namespace attile::core {
namespace {

// The latest first. Backends are added by one store and never taken out, so that the list is whole whenever the process forks.
constinit std::atomic<Backend *> first_backend{nullptr};

// With the lock held. Never destroyed: the program may call until its last instruction.
Loader &loader() {
    static constinit Loader *instance = nullptr;
    if (instance == nullptr) instance = new Loader;
    return *instance;
}

const Backend *known_backend(const std::string &name) {
    const Backend *backend = first_backend.load(std::memory_order_acquire);
    while (backend != nullptr && backend->name != name) backend = backend->next;
    return backend;
}

const BuiltinBackend *builtin_backend(const std::string &name) {
    for (const BuiltinBackend *builtin = builtin_backends; builtin->name != nullptr; ++builtin) {
        if (name == builtin->name) return builtin;
    }
    return nullptr;
}

// With the lock held.
const Backend *keep(std::unique_ptr<Backend> backend) {
    Backend *kept = backend.release();
    kept->next = first_backend.load(std::memory_order_relaxed);
    first_backend.store(kept, std::memory_order_release);
    log(ATTILE_LOG_DEBUG, "backend '%s' %s accepted (%s)", kept->name.c_str(), kept->version.c_str(), kept->where.c_str());
    return kept;
}

int32_t load_backend(const std::string &name, const std::string &label, std::unique_ptr<Backend> *met, std::string *why) {
    Plugin plugin;
    plugin.name = name;
    plugin.label = label;
    plugin.file = "libattile_backend_" + name + library_suffix;
    plugin.entry = ATTILE_BACKEND_ENTRY;
    plugin.meet = [&](void *entry, const std::string &where, std::string *reason) {
        return meet_backend(reinterpret_cast<attile_backend_entry_fn>(entry), name.c_str(), where, met, reason);
    };
    return load_plugin(plugin, why);
}

}  // namespace

int32_t check_hold(const RegistryHold &hold, std::string *why) {
    if (hold.held()) return ATTILE_OK;
    *why = "called by a backend that is being loaded, or by the receiver of its log";
    return ATTILE_ERROR_BACKEND_CONTRACT;
}

int32_t load_plugin(const Plugin &plugin, std::string *why) {
    if (!loading_was_cut_off()) return loader().load(plugin, why);
    // What the system's loader had half done in the parent, no thread of this process will finish.
    *why = "this process was forked while a thread of its parent was loading a backend; it can load none";
    report_candidate(plugin.label, "not looked for", ATTILE_ERROR_AFTER_FORK, *why);
    return ATTILE_ERROR_AFTER_FORK;
}

int32_t find_backend(const std::string &name, const std::string &label, const Backend **backend, std::string *why) {
    const RegistryHold hold;
    int32_t status = check_hold(hold, why);
    if (status != ATTILE_OK) return status;
    *backend = known_backend(name);
    if (*backend != nullptr) return ATTILE_OK;
    std::unique_ptr<Backend> met;
    const BuiltinBackend *builtin = builtin_backend(name);
    if (builtin != nullptr) {
        status = meet_backend(builtin->entry, builtin->name, "built in", &met, why);
        if (status != ATTILE_OK) report_candidate(label, "built in", status, *why);
    } else {
        status = load_backend(name, label, &met, why);
    }
    if (status == ATTILE_OK) *backend = keep(std::move(met));
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
        const RegistryHold hold;
        int32_t status = check_hold(hold, &why);
        if (status != ATTILE_OK) return fail(status, "attile_register_backend: %s", why.c_str());
        status = meet_backend(reinterpret_cast<attile_backend_entry_fn>(entry), nullptr, "registered by the program", &met, &why);
        if (status != ATTILE_OK) return fail(status, "attile_register_backend: the backend is refused: %s", why.c_str());
        if (known_backend(met->name) != nullptr || builtin_backend(met->name) != nullptr) {
            return fail(ATTILE_ERROR_BACKEND_EXISTS, "attile_register_backend: there is a backend '%s' already", met->name.c_str());
        }
        keep(std::move(met));
        return ATTILE_OK;
    });
}

int32_t attile_add_backend_directory(const char *path) {
    using namespace attile::core;
    return guarded([&]() -> int32_t {
        if (path == nullptr) return fail(ATTILE_ERROR_NULL_ARGUMENT, "attile_add_backend_directory: path is NULL");
        std::string why;
        const RegistryHold hold;
        const int32_t status = check_hold(hold, &why);
        if (status != ATTILE_OK) return fail(status, "attile_add_backend_directory: %s", why.c_str());
        if (loading_was_cut_off())
            return fail(
                ATTILE_ERROR_AFTER_FORK,
                "attile_add_backend_directory: no backend can be loaded in this process, which was forked while its parent loaded one");
        if (!loader().add_directory(path, &why)) {
            return fail(ATTILE_ERROR_INVALID_VALUE, "attile_add_backend_directory: path %s", why.c_str());
        }
        return ATTILE_OK;
    });
}

}  // extern "C"
