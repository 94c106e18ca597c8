// SPDX-License-Identifier: Apache-2.0
// The handshake. A backend may be older or newer than this core: its tables are read as far as they reach, and the rest counts as not
// implemented, so that every later call can test one pointer.
#include "handshake.h"

#include <algorithm>
#include <cstring>

#include "backend_call.h"
#include "message.h"
#include "selection.h"

namespace attile::core {
namespace {

// What every table begins with.
struct TableHead {
    uint32_t struct_size;
    uint32_t version;
};
constexpr uint32_t kHighestVersion = 1;
constexpr size_t kMaxVersionBytes = 31;

int32_t refuse(int32_t status, std::string *why, const std::string &text) {
    *why = text;
    return status;
}

// Reads no field before the fields ahead of it have vouched for its being there.
int32_t check_root(const attile_backend_v1 *root, std::string *why) {
    uint32_t head[2];  // struct_size, abi_major
    std::memcpy(head, root, sizeof head);
    if (head[1] != ATTILE_BACKEND_ABI_MAJOR) {
        return refuse(ATTILE_ERROR_BACKEND_INCOMPATIBLE, why,
                      "it was built for version " + std::to_string(head[1]) + " of the backend contract, expected " +
                          std::to_string(ATTILE_BACKEND_ABI_MAJOR));
    }
    if (head[0] < sizeof(attile_backend_v1)) {
        return refuse(ATTILE_ERROR_BACKEND_INCOMPATIBLE, why,
                      "its root has " + std::to_string(head[0]) + " bytes, expected at least " + std::to_string(sizeof(attile_backend_v1)));
    }
    const uint32_t lowest = root->host_minor_min;
    if (lowest > ATTILE_BACKEND_ABI_MINOR) {
        return refuse(ATTILE_ERROR_BACKEND_INCOMPATIBLE, why,
                      "it needs a libattile with backend contract 1." + std::to_string(lowest) + " or newer, this one has 1." +
                          std::to_string(ATTILE_BACKEND_ABI_MINOR));
    }
    if (!valid_backend_name(root->name)) {
        return refuse(ATTILE_ERROR_BACKEND_CONTRACT, why, "its name is not 1 to 31 characters a-z, 0-9, '_', '-'");
    }
    if (root->version == nullptr || strnlen(root->version, kMaxVersionBytes + 1) > kMaxVersionBytes) {
        return refuse(ATTILE_ERROR_BACKEND_CONTRACT, why, "its version is NULL or longer than 31 bytes");
    }
    if (root->probe == nullptr || root->context_create == nullptr || root->context_destroy == nullptr || root->query_interface == nullptr) {
        return refuse(ATTILE_ERROR_BACKEND_CONTRACT, why, "its root lacks probe, context_create, context_destroy or query_interface");
    }
    return ATTILE_OK;
}

template <typename Table>
int32_t copy_table(const attile_backend_v1 &root, uint32_t id, const char *name, Table *copy, const Table **slot, std::string *why) {
    static_assert(offsetof(Table, version) == offsetof(TableHead, version));
    *slot = nullptr;
    const void *table = nullptr;
    const int32_t status = call_backend(why, [&] {
        table = root.query_interface(id, kHighestVersion);
        return ATTILE_OK;
    });
    if (status != ATTILE_OK || table == nullptr) return status;
    TableHead head;
    std::memcpy(&head, table, sizeof head);
    if (head.struct_size < sizeof head || head.version == 0 || head.version > kHighestVersion) {
        return refuse(ATTILE_ERROR_BACKEND_CONTRACT, why,
                      std::string("its ") + name + " interface has " + std::to_string(head.struct_size) + " bytes and version " +
                          std::to_string(head.version) + ", expected at least 8 bytes and version 1");
    }
    const size_t whole_entries = head.struct_size - head.struct_size % sizeof(void *);
    std::memcpy(copy, table, std::min(whole_entries, sizeof *copy));
    copy->struct_size = sizeof *copy;
    *slot = copy;
    return ATTILE_OK;
}

int32_t copy_tables(Backend *b, std::string *why) {
    int32_t status = ATTILE_OK;
    const auto copy = [&](uint32_t id, const char *name, auto *table, auto *slot) {
        if (status == ATTILE_OK) status = copy_table(b->root, id, name, table, slot, why);
    };
    Interfaces *to = &b->interfaces;
    copy(ATTILE_INTERFACE_DEVICE, "device", &b->device, &to->device);
    copy(ATTILE_INTERFACE_MEMORY, "memory", &b->memory, &to->memory);
    copy(ATTILE_INTERFACE_GEMM, "gemm", &b->gemm, &to->gemm);
    copy(ATTILE_INTERFACE_ATTENTION, "attention", &b->attention, &to->attention);
    copy(ATTILE_INTERFACE_ATTENTION_BACKWARD, "attention backward", &b->attention_backward, &to->attention_backward);
    copy(ATTILE_INTERFACE_ATTENTION_MERGE, "attention merge", &b->attention_merge, &to->attention_merge);
    copy(ATTILE_INTERFACE_REDUCE, "reduce", &b->reduce, &to->reduce);
    copy(ATTILE_INTERFACE_SOFTMAX, "softmax", &b->softmax, &to->softmax);
    if (status == ATTILE_OK && (to->device == nullptr || to->memory == nullptr)) {
        return refuse(ATTILE_ERROR_BACKEND_CONTRACT, why, "it lacks the device or the memory interface, which are required");
    }
    return status;
}

}  // namespace

int32_t meet_backend(attile_backend_entry_fn entry, const char *expected_name, const std::string &where, std::unique_ptr<Backend> *backend,
                     std::string *why) {
    prepare_to_catch();
    Surroundings surroundings;
    why->clear();
    const attile_backend_v1 *root = nullptr;
    int32_t status = call_backend(why, [&] {
        root = entry(host_table());
        return ATTILE_OK;
    });
    if (status != ATTILE_OK) return status;
    if (root == nullptr) {
        return refuse(ATTILE_ERROR_BACKEND_INCOMPATIBLE, why, why->empty() ? "its entry returned NULL and gave no reason" : *why);
    }
    why->clear();
    status = check_root(root, why);
    if (status != ATTILE_OK) return status;
    if (expected_name != nullptr && std::strcmp(root->name, expected_name) != 0) {
        return refuse(ATTILE_ERROR_BACKEND_CONTRACT, why,
                      std::string("it calls itself '") + root->name + "', expected '" + expected_name + "'");
    }
    auto met = std::make_unique<Backend>();
    met->name = root->name;
    met->version = root->version;
    make_printable(met->version.data());
    met->where = where;
    std::memcpy(&met->root, root, sizeof met->root);
    met->root.struct_size = sizeof met->root;
    status = copy_tables(met.get(), why);
    if (status != ATTILE_OK) return status;
    surroundings.put_back(met->name);
    *backend = std::move(met);
    return ATTILE_OK;
}

}  // namespace attile::core
