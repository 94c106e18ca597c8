// SPDX-License-Identifier: Apache-2.0
// The transport of MPI: one source, compiled once for each MPI. ATTILE_COMM_NAME is the name of what comes out.
#include <cstring>
#include <new>

#include "mpi/mpi_errors.h"
#include "mpi/mpi_link.h"

namespace attile::mpi {
namespace {

const char *name_of_level(int level) {
    return level == MPI_THREAD_SINGLE ? "MPI_THREAD_SINGLE" : level == MPI_THREAD_FUNNELED ? "MPI_THREAD_FUNNELED" : "more";
}

// Where a process has two MPIs, the calls of this file may reach the one, and the handles that it was compiled with be the other's.
int32_t check_library() {
    constexpr int kMostBytes = 16384;  // more than any MPI writes
    char version[kMostBytes] = "";
    int length = 0;
    if (MPI_Get_library_version(version, &length) != MPI_SUCCESS) version[0] = '\0';
#if defined(OPEN_MPI)
    const bool expected = std::strstr(version, "Open MPI") != nullptr;
#else
    const bool expected = std::strstr(version, "Open MPI") == nullptr;
#endif
    if (expected) return ATTILE_OK;
    version[std::strcspn(version, "\n")] = '\0';
    for (char *at = version; *at != '\0'; ++at) *at = *at == '\t' ? ' ' : *at;
    return refuse(ATTILE_ERROR_BACKEND_REFUSED,
                  "the process has another MPI besides the one this transport is for, and calls reach that: %.200s", version);
}

int32_t query_level(int *level) {
    int yes = 0;
    if (MPI_Initialized(&yes) != MPI_SUCCESS || yes == 0) {
        return refuse(ATTILE_ERROR_BACKEND_REFUSED, "the program has not initialised MPI; expected MPI_Init_thread before");
    }
    if (MPI_Finalized(&yes) != MPI_SUCCESS || yes != 0) return refuse(ATTILE_ERROR_BACKEND_REFUSED, "the program has ended MPI");
    if (MPI_Query_thread(level) != MPI_SUCCESS) *level = MPI_THREAD_SINGLE;
    int main_thread = 0;
    if (*level == MPI_THREAD_FUNNELED && MPI_Is_thread_main(&main_thread) == MPI_SUCCESS && main_thread != 0) return ATTILE_OK;
    if (*level >= MPI_THREAD_SERIALIZED) return ATTILE_OK;
    return refuse(
        ATTILE_ERROR_BACKEND_REFUSED,
        "MPI was initialised with %s; expected at least MPI_THREAD_FUNNELED for calls of the main thread, MPI_THREAD_SERIALIZED for "
        "those of another",
        name_of_level(*level));
}

int32_t probe() {
    int level = 0;
    const int32_t status = check_library();
    return status == ATTILE_OK ? query_level(&level) : status;
}

int32_t refuse_handle(int64_t handle, const char *what) {
    return refuse(ATTILE_ERROR_INVALID_VALUE, "options->communicator is %lld, which is %s; expected what MPI_Comm_c2f() returns",
                  static_cast<long long>(handle), what);
}

// The communicator that a Fortran integer stands for, after MPI itself was asked whether it is one.
int32_t find_communicator(int64_t handle, MPI_Comm *comm, int *rank, int *ranks) {
    *comm = MPI_COMM_WORLD;
    if (handle != 0) {
        const MPI_Fint fortran = static_cast<MPI_Fint>(handle);
        if (fortran != handle) return refuse_handle(handle, "not an integer of Fortran");
        *comm = MPI_Comm_f2c(fortran);
    }
    if (*comm == MPI_COMM_NULL || *comm == MPI_Comm{}) return refuse_handle(handle, "not a communicator");
    int two_groups = 0;
    if (MPI_Comm_test_inter(*comm, &two_groups) != MPI_SUCCESS) return refuse_handle(handle, "not a communicator");
    if (two_groups != 0) return refuse_handle(handle, "an inter-communicator, of two groups of ranks");
    if (MPI_Comm_size(*comm, ranks) != MPI_SUCCESS || MPI_Comm_rank(*comm, rank) != MPI_SUCCESS)
        return refuse_handle(handle, "not a communicator");
    return ATTILE_OK;
}

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

void give_up(void *user, int32_t /*status*/, const char *why) { static_cast<Link *>(user)->give_up(why); }

void close(void *user) {
    Link *link = static_cast<Link *>(user);
    if (link->leave()) delete link;
}

int32_t open(const attile_comm_plugin_options *options, attile_comm_plugin_link *opened) {
    int level = 0, rank = 0, ranks = 0;
    int32_t status = query_level(&level);
    if (status != ATTILE_OK) return status;
    const ReturnedErrorsOfAll returned;
    MPI_Comm parent = MPI_COMM_NULL;
    status = find_communicator(options->communicator, &parent, &rank, &ranks);
    if (status != ATTILE_OK) return status;
    const bool given = options->rank != 0 || options->ranks != 0;
    if (given && (options->rank != rank || (options->ranks != 0 && options->ranks != ranks))) {
        return refuse(
            ATTILE_ERROR_INVALID_VALUE,
            "options->rank is %d and options->ranks %d, and of MPI's communicator this is rank %d of %d; expected these or 0 and 0",
            options->rank, options->ranks, rank, ranks);
    }
    Link *link = new (std::nothrow) Link(level, rank, ranks);
    if (link == nullptr) return refuse(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "out of host memory");
    status = link->join(parent, options->timeout_seconds);
    if (status != ATTILE_OK) {
        close(link);
        return status;
    }
    opened->flags = ATTILE_COMM_PLUGIN_TELLS_WHY;
    opened->rank = rank;
    opened->ranks = ranks;
    opened->calls->user = link;
    opened->calls->send = send;
    opened->calls->receive = receive;
    opened->calls->wait = wait;
    opened->calls->give_up = give_up;
    return ATTILE_OK;
}

constexpr attile_comm_plugin_v1 kRoot = {
    sizeof(attile_comm_plugin_v1),
    ATTILE_COMM_PLUGIN_ABI_MAJOR,
    ATTILE_COMM_PLUGIN_ABI_MINOR,
    0,
    ATTILE_COMM_NAME,
    ATTILE_COMM_VERSION,
    probe,
    open,
    close,
};

}  // namespace
}  // namespace attile::mpi

extern "C" ATTILE_ENTRY_EXPORT const attile_comm_plugin_v1 *ATTILE_COMM_ENTRY_SYMBOL(const attile_host_v1 *host);

extern "C" const attile_comm_plugin_v1 *ATTILE_COMM_ENTRY_SYMBOL(const attile_host_v1 *host) {
    attile::mpi::host = host;
    return &attile::mpi::kRoot;
}
