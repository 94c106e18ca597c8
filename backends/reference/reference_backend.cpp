// SPDX-License-Identifier: Apache-2.0
// The reference backend's root: its name, its one device, and the tables it offers.
#include "reference_backend.h"

#include <cstdio>
#include <new>

namespace attile::reference {
namespace {

const attile_host_v1 *host = nullptr;  // set once by the entry, before any other function can be called

std::int32_t probe(std::int32_t device, attile_backend_probe *found) {
    found->device_count = 1;
    std::snprintf(found->device_name, sizeof found->device_name, "reference (plain loops in double)");
    return device == 0 ? ATTILE_OK : fail(ATTILE_ERROR_BACKEND_REFUSED, "the reference backend has one device, number 0");
}

struct Context {};

std::int32_t context_create(const attile_backend_options *options, void **state) {
    *state = nullptr;
    if (options->device != 0) return fail(ATTILE_ERROR_BACKEND_REFUSED, "the reference backend has one device, number 0");
    *state = new (std::nothrow) Context;
    return *state != nullptr ? ATTILE_OK : fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "no memory for a reference context");
}

void context_destroy(void *state) { delete static_cast<Context *>(state); }

const void *query_interface(std::uint32_t id, std::uint32_t version) {
    if (version < 1) return nullptr;
    switch (id) {
        case ATTILE_INTERFACE_DEVICE:
            return &device_interface;
        case ATTILE_INTERFACE_MEMORY:
            return &memory_interface;
        case ATTILE_INTERFACE_GEMM:
            return &gemm_interface;
        case ATTILE_INTERFACE_ATTENTION:
            return &attention_interface;
        case ATTILE_INTERFACE_ATTENTION_BACKWARD:
            return &attention_backward_interface;
        case ATTILE_INTERFACE_ATTENTION_MERGE:
            return &attention_merge_interface;
        case ATTILE_INTERFACE_ATTENTION_MERGE_BACKWARD:
            return &attention_merge_backward_interface;
        case ATTILE_INTERFACE_REDUCE:
            return &reduce_interface;
        case ATTILE_INTERFACE_SOFTMAX:
            return &softmax_interface;
        case ATTILE_INTERFACE_QUANTIZE:
            return &quantize_interface;
        case ATTILE_INTERFACE_REPACK:
            return &repack_interface;
        case ATTILE_INTERFACE_GEMM_GROUPED:
            return &gemm_grouped_interface;
        default:
            return nullptr;
    }
}

// A core of contract 1.0 refuses interfaces of version 2.
constexpr uint32_t kLowestHostMinor = 1;

const attile_backend_v1 root = {
    sizeof(attile_backend_v1),
    ATTILE_BACKEND_ABI_MAJOR,
    ATTILE_BACKEND_ABI_MINOR,
    kLowestHostMinor,
    "reference",
    ATTILE_BACKEND_VERSION,
    probe,
    context_create,
    context_destroy,
    query_interface,
};

}  // namespace

std::int32_t fail(std::int32_t code, const char *text) {
    if (host != nullptr && host->set_error != nullptr) host->set_error(text);
    return code;
}

}  // namespace attile::reference

extern "C" ATTILE_ENTRY_EXPORT const attile_backend_v1 *ATTILE_BACKEND_ENTRY_SYMBOL(const attile_host_v1 *host);

extern "C" const attile_backend_v1 *ATTILE_BACKEND_ENTRY_SYMBOL(const attile_host_v1 *host) {
    attile::reference::host = host;
    return &attile::reference::root;
}
