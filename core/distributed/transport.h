// SPDX-License-Identifier: Apache-2.0
// What carries bytes between ranks: a table of functions, those of attile_comm_callbacks and one that ends it. A kind of transport is a row
// in transports.cpp; those that come as plugins fill the same table (plugin_transport.cpp).
#ifndef ATTILE_CORE_DISTRIBUTED_TRANSPORT_H
#define ATTILE_CORE_DISTRIBUTED_TRANSPORT_H

#include <attile/attile_distributed.h>

namespace attile::core {

// Messages with one rank that may be under way at once.
inline constexpr int32_t kMostMessages = 8;
inline constexpr int32_t kMostRanks = 65536;

// The functions are those of a caller's, with the same promises. One that fails may say why through set_backend_words().
struct Transport {
    attile_comm_callbacks call{};
    void (*close)(void *user) = nullptr;  // this rank leaves
    // What give_up() is told comes to the others as the words of what then fails. It is told who failed with what, as a whole sentence.
    bool tells_why = false;
    bool reaches_device = false;                             // messages may lie in the memory of the context's device
    int32_t (*flush)(void *user, double seconds) = nullptr;  // sends off what was started; NULL: that is not needed
};

// Checked options.
struct TransportSetup {
    int32_t rank, ranks;  // a kind that knows them by itself puts its own here
    int64_t group, communicator;
    double timeout;
    const attile_comm_callbacks *callbacks;  // NULL: not given
    attile_context *context;
    int32_t device_type, device_index;  // the context's
};

struct TransportKind {
    const char *name;
    // Returns when all ranks have come, as far as the kind can tell. Its failures have their sentence.
    int32_t (*open)(const TransportKind &kind, TransportSetup *setup, Transport *transport);
    // Of kinds that come as plugins: their names, the first to be tried first, then NULL. Such a kind knows rank and ranks by itself.
    const char *const *plugins = nullptr;
};

// The kind of that name, which `source` gave. NULL: ATTILE_ERROR_BACKEND_NOT_FOUND, its sentence set.
const TransportKind *find_transport(const char *source, const char *name);

int32_t open_threads(const TransportKind &kind, TransportSetup *setup, Transport *transport);
int32_t open_callbacks(const TransportKind &kind, TransportSetup *setup, Transport *transport);
int32_t open_plugin(const TransportKind &kind, TransportSetup *setup, Transport *transport);

}  // namespace attile::core

#endif
