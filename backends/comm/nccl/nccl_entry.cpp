// SPDX-License-Identifier: Apache-2.0
// The transport of NCCL, and of RCCL for AMD's GPUs: the functions that the core calls.
#include <cstdint>
#include <new>

#include "nccl/nccl_link.h"

namespace attile::nccl {
namespace {

int32_t send(void *user, const void *data, int64_t bytes, int32_t to, void **request) {
    // A send's memory is only read.
    return static_cast<Link *>(user)->start(true, const_cast<void *>(data), bytes, to, reinterpret_cast<Message **>(request));
}

int32_t receive(void *user, void *data, int64_t bytes, int32_t from, void **request) {
    return static_cast<Link *>(user)->start(false, data, bytes, from, reinterpret_cast<Message **>(request));
}

int32_t wait(void *user, void *request, double seconds) {
    return static_cast<Link *>(user)->wait(static_cast<Message *>(request), seconds);
}

int32_t flush(void *user, double seconds) { return static_cast<Link *>(user)->flush(seconds); }

void give_up(void *user, int32_t /*status*/, const char * /*why*/) { static_cast<Link *>(user)->give_up(); }

void close(void *user) {
    Link *link = static_cast<Link *>(user);
    link->leave();
    delete link;
}

// Whether the caller's communicator, whose rank is known, fits what else was given.
int32_t check_fit(const Library &library, const attile_comm_plugin_options &options, Comm parent, int rank, int ranks) {
    int device = 0;
    const int result = library.device(parent, &device);
    if (result != kSuccess) return refuse_result(library, "ncclCommCuDevice", result);
    if (device != options.device->index) {
        return refuse(ATTILE_ERROR_INVALID_VALUE, "options->communicator is on device %d, and the context on device %d; expected the same",
                      device, options.device->index);
    }
    const bool given = options.rank != 0 || options.ranks != 0;
    if (given && (options.rank != rank || (options.ranks != 0 && options.ranks != ranks))) {
        return refuse(ATTILE_ERROR_INVALID_VALUE,
                      "options->rank is %d and options->ranks %d, and of the communicator this is rank %d of %d; expected these or 0 and 0",
                      options.rank, options.ranks, rank, ranks);
    }
    return ATTILE_OK;
}

// The others wait for this rank: if it cannot take part it comes all the same, so that they hear of it.
int32_t join(const attile_comm_plugin_options &options, const Library &library, Comm parent, int rank, int ranks, Link *link) {
    int32_t status = check_fit(library, options, parent, rank, ranks);
    if (status == ATTILE_OK) status = link->prepare();
    if (status == ATTILE_OK) return link->join(parent, true, options.timeout_seconds);
    (void)link->join(parent, false, options.timeout_seconds);
    return status;
}

int32_t open(const attile_comm_plugin_options *options, attile_comm_plugin_link *opened) {
    const Library *library = nullptr;
    const int32_t status = find_library(options->device->type, &library);
    if (status != ATTILE_OK) return status;
    const Comm parent = reinterpret_cast<Comm>(static_cast<intptr_t>(options->communicator));
    if (parent == nullptr) {
        return refuse(ATTILE_ERROR_INVALID_VALUE, "options->communicator is 0; expected an ncclComm_t as (int64_t)(intptr_t)comm");
    }
    int rank = 0, ranks = 0;
    if (library->user_rank(parent, &rank) != kSuccess || library->count(parent, &ranks) != kSuccess) {
        return refuse(ATTILE_ERROR_INVALID_VALUE, "options->communicator is %p, which is not a communicator for %s", parent, library->file);
    }
    Link *link = new (std::nothrow) Link(*library, *options->device, rank, ranks);
    if (link == nullptr) return refuse(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "out of host memory");
    const int32_t joined = join(*options, *library, parent, rank, ranks, link);
    if (joined != ATTILE_OK) {
        close(link);
        return joined;
    }
    opened->flags = ATTILE_COMM_PLUGIN_REACHES_DEVICE;
    opened->rank = rank;
    opened->ranks = ranks;
    opened->calls->user = link;
    opened->calls->send = send;
    opened->calls->receive = receive;
    opened->calls->wait = wait;
    opened->calls->give_up = give_up;
    opened->flush = flush;
    return ATTILE_OK;
}

constexpr attile_comm_plugin_v1 kRoot = {
    sizeof(attile_comm_plugin_v1),
    ATTILE_COMM_PLUGIN_ABI_MAJOR,
    ATTILE_COMM_PLUGIN_ABI_MINOR,
    1,  // the first whose core hands over the device
    ATTILE_COMM_NAME,
    ATTILE_COMM_VERSION,
    find_any_library,
    open,
    close,
};

}  // namespace
}  // namespace attile::nccl

extern "C" ATTILE_ENTRY_EXPORT const attile_comm_plugin_v1 *ATTILE_COMM_ENTRY_SYMBOL(const attile_host_v1 *host);

extern "C" const attile_comm_plugin_v1 *ATTILE_COMM_ENTRY_SYMBOL(const attile_host_v1 *host) {
    attile::nccl::host = host;
    return &attile::nccl::kRoot;
}
