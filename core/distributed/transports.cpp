// SPDX-License-Identifier: Apache-2.0
// The kinds of transports, and the one that is the caller's own functions.
#include <cstring>
#include <string>

#include "args_head.h"
#include "distributed/transport.h"
#include "message.h"
#include "operation.h"
#include "status.h"

namespace attile::core {
namespace {

// Of MPI's standard ABI, which every MPI may have, then of those whose ABI is their own.
constexpr const char *const kMpi[] = {"mpi", "mpi_openmpi", "mpi_mpich", nullptr};
constexpr const char *const kNccl[] = {"nccl", nullptr};
constexpr TransportKind kKinds[] = {
    {"threads", open_threads}, {"mpi", open_plugin, kMpi}, {"nccl", open_plugin, kNccl}, {"callbacks", open_callbacks}};
constexpr size_t kMostName = 31;

constexpr uint32_t kCallbacksFirstSize = ATTILE_SIZE_UP_TO(attile_comm_callbacks, give_up);

}  // namespace

const TransportKind *find_transport(const char *source, const char *name) {
    std::string known;
    for (const TransportKind &candidate : kKinds) {
        if (std::strcmp(name, candidate.name) == 0) return &candidate;
        known.append(known.empty() ? "" : ", ").append(candidate.name);
    }
    std::string shown(name, strnlen(name, kMostName + 1));
    make_printable(shown.data());
    (void)fail(ATTILE_ERROR_BACKEND_NOT_FOUND, "comm_create: %s is '%s'; expected one of: %s", source, shown.c_str(), known.c_str());
    return nullptr;
}

int32_t open_callbacks(const TransportKind & /*kind*/, TransportSetup *setup, Transport *transport) {
    if (setup->callbacks == nullptr) {
        return fail(ATTILE_ERROR_NULL_ARGUMENT, "comm_create: options->callbacks is NULL; the kind 'callbacks' needs it");
    }
    ATTILE_TRY(read_args("comm_create", "options->callbacks", kCallbacksFirstSize, 0, setup->callbacks, &transport->call));
    const attile_comm_callbacks &call = transport->call;
    const struct {
        const char *name;
        bool missing;
    } required[] = {{"send", call.send == nullptr}, {"receive", call.receive == nullptr}, {"wait", call.wait == nullptr}};
    for (const auto &function : required) {
        if (!function.missing) continue;
        return fail(ATTILE_ERROR_NULL_ARGUMENT, "comm_create: options->callbacks->%s is NULL; it is required", function.name);
    }
    return ATTILE_OK;
}

}  // namespace attile::core
