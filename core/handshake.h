// SPDX-License-Identifier: Apache-2.0
// Meeting a plugin: calls its entry and checks the root that it returns; of a backend takes copies of its tables.
#ifndef ATTILE_CORE_HANDSHAKE_H
#define ATTILE_CORE_HANDSHAKE_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "context.h"

namespace attile::core {

// A backend that was accepted. Lives until the process ends, as what it points to does.
struct Backend {
    std::string name;
    std::string version;
    std::string where;  // its file, or how else it came
    attile_backend_v1 root;
    Interfaces interfaces;  // point into the tables below

    attile_device_interface device;
    attile_memory_interface memory;
    attile_gemm_interface gemm;
    attile_attention_interface attention;
    attile_attention_backward_interface attention_backward;
    attile_attention_merge_interface attention_merge;
    attile_attention_merge_backward_interface attention_merge_backward;
    attile_reduce_interface reduce;
    attile_softmax_interface softmax;
    attile_quantize_interface quantize;
    attile_gemm_grouped_interface gemm_grouped;
    attile_repack_interface repack;

    Backend *next = nullptr;  // of the registry's list
};

// What roots of all plugins begin with.
struct PluginRoot {
    uint32_t struct_size, abi_major, abi_minor, host_minor_min;
    const char *name, *version;
};

// What the core has of a contract.
struct PluginContract {
    const char *name;  // "backend contract"
    uint32_t major, minor;
    size_t root_bytes;
};

// Calls the entry, by a function that does so, and checks all of the root that PluginRoot has. `root` is of the contract's type, and whole.
// `expected_name` may be NULL; else the plugin must bear it.
int32_t meet_plugin(const std::function<const void *()> &call_entry, const PluginContract &contract, const char *expected_name,
                    const void **root, std::string *why);

// The plugin's own version, fit to be shown.
std::string shown_version(const void *root);

// ATTILE_OK and `backend`, or a code and the reason in `why`. `expected_name` may be NULL; else the backend must bear it.
int32_t meet_backend(attile_backend_entry_fn entry, const char *expected_name, const std::string &where, std::unique_ptr<Backend> *backend,
                     std::string *why);

}  // namespace attile::core

#endif
