// SPDX-License-Identifier: Apache-2.0
// The handshake. A backend may be older or newer than this core: its tables are read as far as they reach, and the rest counts as not
// implemented, so that every later call can test one pointer.
#include "handshake.h"

#include <algorithm>
#include <cstring>

#include "backend_call.h"
#include "message.h"
#include "selection.h"
#include "status.h"

namespace attile::core {
namespace {

// What every table begins with.
struct TableHead {
    uint32_t struct_size;
    uint32_t version;
};
// Of an interface. Those of products and attention have grown twice, most others once.
constexpr uint32_t highest_version(uint32_t id) {
    switch (id) {
        case ATTILE_INTERFACE_GEMM:
        case ATTILE_INTERFACE_ATTENTION:
            return 3;
        case ATTILE_INTERFACE_ATTENTION_BACKWARD:
        case ATTILE_INTERFACE_ATTENTION_MERGE:
        case ATTILE_INTERFACE_REDUCE:
        case ATTILE_INTERFACE_SOFTMAX:
            return 2;
        default:
            return 1;
    }
}
constexpr size_t kMaxVersionBytes = 31;

int32_t refuse(int32_t status, std::string *why, const std::string &text) {
    *why = text;
    return status;
}

constexpr PluginContract kBackendContract = {"backend contract", ATTILE_BACKEND_ABI_MAJOR, ATTILE_BACKEND_ABI_MINOR,
                                             sizeof(attile_backend_v1)};
static_assert(offsetof(attile_backend_v1, host_minor_min) == offsetof(PluginRoot, host_minor_min));
static_assert(offsetof(attile_backend_v1, version) == offsetof(PluginRoot, version));

// Reads no field before the fields ahead of it have vouched for its being there.
int32_t check_root(const void *root, const PluginContract &contract, std::string *why) {
    uint32_t head[2];  // struct_size, abi_major
    std::memcpy(head, root, sizeof head);
    if (head[1] != contract.major) {
        return refuse(ATTILE_ERROR_BACKEND_INCOMPATIBLE, why,
                      "it was built for version " + std::to_string(head[1]) + " of the " + contract.name + ", expected " +
                          std::to_string(contract.major));
    }
    if (head[0] < contract.root_bytes) {
        return refuse(ATTILE_ERROR_BACKEND_INCOMPATIBLE, why,
                      "its root has " + std::to_string(head[0]) + " bytes, expected at least " + std::to_string(contract.root_bytes));
    }
    PluginRoot known;
    std::memcpy(&known, root, sizeof known);
    if (known.host_minor_min > contract.minor) {
        return refuse(ATTILE_ERROR_BACKEND_INCOMPATIBLE, why,
                      std::string("it needs a libattile with ") + contract.name + " " + std::to_string(contract.major) + "." +
                          std::to_string(known.host_minor_min) + " or newer, this one has " + std::to_string(contract.major) + "." +
                          std::to_string(contract.minor));
    }
    if (!valid_backend_name(known.name)) {
        return refuse(ATTILE_ERROR_BACKEND_CONTRACT, why, "its name is not 1 to 31 characters a-z, 0-9, '_', '-'");
    }
    if (known.version == nullptr || strnlen(known.version, kMaxVersionBytes + 1) > kMaxVersionBytes) {
        return refuse(ATTILE_ERROR_BACKEND_CONTRACT, why, "its version is NULL or longer than 31 bytes");
    }
    return ATTILE_OK;
}

template <typename Table>
int32_t copy_table(const attile_backend_v1 &root, uint32_t id, const char *name, Table *copy, const Table **slot, std::string *why) {
    static_assert(offsetof(Table, version) == offsetof(TableHead, version));
    *slot = nullptr;
    const void *table = nullptr;
    const int32_t status = call_backend(why, [&] {
        table = root.query_interface(id, highest_version(id));
        return ATTILE_OK;
    });
    if (status != ATTILE_OK || table == nullptr) return status;
    TableHead head;
    std::memcpy(&head, table, sizeof head);
    if (head.struct_size < sizeof head || head.version == 0 || head.version > highest_version(id)) {
        return refuse(ATTILE_ERROR_BACKEND_CONTRACT, why,
                      std::string("its ") + name + " interface has " + std::to_string(head.struct_size) + " bytes and version " +
                          std::to_string(head.version) + ", expected at least 8 bytes and version 1 to " +
                          std::to_string(highest_version(id)));
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
    copy(ATTILE_INTERFACE_ATTENTION_MERGE_BACKWARD, "attention merge backward", &b->attention_merge_backward,
         &to->attention_merge_backward);
    copy(ATTILE_INTERFACE_REDUCE, "reduce", &b->reduce, &to->reduce);
    copy(ATTILE_INTERFACE_SOFTMAX, "softmax", &b->softmax, &to->softmax);
    copy(ATTILE_INTERFACE_QUANTIZE, "quantize", &b->quantize, &to->quantize);
    copy(ATTILE_INTERFACE_GEMM_GROUPED, "gemm grouped", &b->gemm_grouped, &to->gemm_grouped);
    copy(ATTILE_INTERFACE_REPACK, "repack", &b->repack, &to->repack);
    if (status == ATTILE_OK && (to->device == nullptr || to->memory == nullptr)) {
        return refuse(ATTILE_ERROR_BACKEND_CONTRACT, why, "it lacks the device or the memory interface, which are required");
    }
    return status;
}

}  // namespace

int32_t meet_plugin(const std::function<const void *()> &call_entry, const PluginContract &contract, const char *expected_name,
                    const void **root, std::string *why) {
    prepare_to_catch();
    why->clear();
    *root = nullptr;
    ATTILE_TRY(call_backend(why, [&] {
        *root = call_entry();
        return ATTILE_OK;
    }));
    if (*root == nullptr) {
        return refuse(ATTILE_ERROR_BACKEND_INCOMPATIBLE, why, why->empty() ? "its entry returned NULL and gave no reason" : *why);
    }
    why->clear();
    ATTILE_TRY(check_root(*root, contract, why));
    const char *name = static_cast<const PluginRoot *>(*root)->name;
    if (expected_name == nullptr || std::strcmp(name, expected_name) == 0) return ATTILE_OK;
    return refuse(ATTILE_ERROR_BACKEND_CONTRACT, why, std::string("it calls itself '") + name + "', expected '" + expected_name + "'");
}

std::string shown_version(const void *root) {
    std::string version = static_cast<const PluginRoot *>(root)->version;
    make_printable(version.data());
    return version;
}

int32_t meet_backend(attile_backend_entry_fn entry, const char *expected_name, const std::string &where, std::unique_ptr<Backend> *backend,
                     std::string *why) {
    Surroundings surroundings;
    const void *found = nullptr;
    ATTILE_TRY(meet_plugin([&] { return entry(host_table()); }, kBackendContract, expected_name, &found, why));
    const attile_backend_v1 *root = static_cast<const attile_backend_v1 *>(found);
    if (root->probe == nullptr || root->context_create == nullptr || root->context_destroy == nullptr || root->query_interface == nullptr) {
        return refuse(ATTILE_ERROR_BACKEND_CONTRACT, why, "its root lacks probe, context_create, context_destroy or query_interface");
    }
    auto met = std::make_unique<Backend>();
    met->name = root->name;
    met->version = shown_version(root);
    met->where = where;
    std::memcpy(&met->root, root, sizeof met->root);
    met->root.struct_size = sizeof met->root;
    ATTILE_TRY(copy_tables(met.get(), why));
    surroundings.put_back(met->name);
    *backend = std::move(met);
    return ATTILE_OK;
}

}  // namespace attile::core
