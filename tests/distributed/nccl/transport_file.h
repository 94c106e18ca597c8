// SPDX-License-Identifier: Apache-2.0
// The transport's own file, TRANSPORT, and the core's part of the contract.
#pragma once

#include <attile/attile_comm_plugin.h>
#include <dlfcn.h>

#include <string>

namespace attile::test {

// What the transport said last on this thread.
inline thread_local std::string transport_words;

// NULL: dlerror() says why.
inline const attile_comm_plugin_v1 *open_transport_file() {
    static const attile_host_v1 host = {sizeof(attile_host_v1),
                                        ATTILE_BACKEND_ABI_MINOR,
                                        [](const char *text) { transport_words = text; },
                                        [](std::int32_t, const char *) {},
                                        []() -> std::int32_t { return 0; },
                                        [](const char *) -> const char * { return nullptr; }};
    void *file = dlopen(TRANSPORT, RTLD_NOW | RTLD_LOCAL);
    if (file == nullptr) return nullptr;
    return reinterpret_cast<attile_comm_plugin_entry_fn>(dlsym(file, ATTILE_COMM_PLUGIN_ENTRY))(&host);
}

}  // namespace attile::test
