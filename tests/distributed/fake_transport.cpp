// SPDX-License-Identifier: Apache-2.0
// A transport for one rank, with the fault that macros set: for the checks that every transport goes through.
#include <attile/attile_comm_plugin.h>

#ifndef FAKE_NAME
#define FAKE_NAME "mpi"
#endif
#ifndef FAKE_ABI_MAJOR
#define FAKE_ABI_MAJOR ATTILE_COMM_PLUGIN_ABI_MAJOR
#endif
#ifndef FAKE_HOST_MINOR_MIN
#define FAKE_HOST_MINOR_MIN 0
#endif
#ifndef FAKE_ROOT_SIZE
#define FAKE_ROOT_SIZE sizeof(attile_comm_plugin_v1)
#endif
#ifndef FAKE_RANKS
#define FAKE_RANKS 1
#endif
#ifndef FAKE_SEND
#define FAKE_SEND send
#endif

#ifdef FAKE_DEPENDENCY
extern "C" int attile_test_dependency(void);
#endif

namespace {

const attile_host_v1 *host = nullptr;

int32_t probe() {
#ifdef FAKE_REFUSES
    host->set_error("there is no fake network");
    return ATTILE_ERROR_BACKEND_REFUSED;
#endif
#ifdef FAKE_DEPENDENCY
    return attile_test_dependency();
#endif
    return ATTILE_OK;
}

[[maybe_unused]] int32_t send(void * /*user*/, const void * /*data*/, int64_t /*bytes*/, int32_t /*to*/, void ** /*request*/) { return 1; }
int32_t receive(void * /*user*/, void * /*data*/, int64_t /*bytes*/, int32_t /*from*/, void ** /*request*/) { return 1; }
int32_t wait(void * /*user*/, void * /*request*/, double /*seconds*/) { return 1; }

int32_t open(const attile_comm_plugin_options *options, attile_comm_plugin_link *link) {
#ifdef FAKE_THROWS
    throw 1;
#endif
    if (options->communicator != 7) {
        host->set_error("the communicator is not 7");
        return ATTILE_ERROR_INVALID_VALUE;
    }
    link->ranks = FAKE_RANKS;
    link->calls->send = FAKE_SEND;
    link->calls->receive = receive;
    link->calls->wait = wait;
    return ATTILE_OK;
}

void close(void * /*user*/) {}

constexpr attile_comm_plugin_v1 kRoot = {
    FAKE_ROOT_SIZE, FAKE_ABI_MAJOR, 0, FAKE_HOST_MINOR_MIN, FAKE_NAME, "1.2.3", probe,
#ifdef FAKE_LACKS_OPEN
    nullptr,
#else
    open,
#endif
    close,
};

}  // namespace

extern "C" ATTILE_ENTRY_EXPORT const attile_comm_plugin_v1 *attile_comm_entry_v1(const attile_host_v1 *from);

extern "C" const attile_comm_plugin_v1 *attile_comm_entry_v1(const attile_host_v1 *from) {
    host = from;
    (void)open;
    return &kRoot;
}
