// SPDX-License-Identifier: Apache-2.0
// Communicators: joining a group, leaving it, what they are.
#include "distributed/comm.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "args_head.h"
#include "context.h"
#include "distributed/agreement.h"
#include "environment.h"
#include "fork.h"
#include "log.h"
#include "message.h"
#include "operation.h"
#include "process.h"

namespace attile::core {
namespace {

constexpr const char *kCreate = "comm_create";
constexpr uint32_t kCommOptionsFirstSize = ATTILE_SIZE_UP_TO(attile_comm_options, timeout_seconds);
constexpr uint32_t kCommInfoFirstSize = ATTILE_SIZE_UP_TO(attile_comm_info, text);
constexpr const char *kKindVariable = "ATTILE_COMM";
constexpr const char *kTimeoutVariable = "ATTILE_COMM_TIMEOUT";
constexpr double kDefaultTimeout = 600.0;
constexpr double kLongest = 1e8;   // seconds, three years: more would not fit the clock
constexpr int32_t kProcessor = 1;  // DLPack's number of the device whose memory is the process's own

constinit HandleTable<Comm, 0x636f> comm_table;

uint64_t number_of(const attile_comm *handle) { return reinterpret_cast<uint64_t>(handle); }

// Digits with a point among them or not, whatever the locale; -1 for anything else.
double decimal_number(const char *text) {
    double number = 0.0, place = 0.0;  // of the next digit behind the point
    bool digits = false;
    for (; *text != '\0'; ++text) {
        if (*text == '.' && place == 0.0) {
            place = 0.1;
            continue;
        }
        if (*text < '0' || *text > '9') return -1.0;
        digits = true;
        number = place == 0.0 ? number * 10 + (*text - '0') : number + place * (*text - '0');
        place /= 10;
    }
    return digits ? number : -1.0;
}

int32_t read_timeout(double given, double *timeout) {
    if (given != 0.0) {
        if (!(given > 0.0)) {
            return fail(ATTILE_ERROR_INVALID_VALUE, "%s: options->timeout_seconds is %g; expected 0 or a positive number", kCreate, given);
        }
        *timeout = std::min(given, kLongest);
        return ATTILE_OK;
    }
    const char *text = environment(kTimeoutVariable);
    if (text == nullptr || text[0] == '\0') {
        *timeout = kDefaultTimeout;
        return ATTILE_OK;
    }
    const double seconds = decimal_number(text);
    if (!(seconds > 0.0)) {
        char shown[64];
        std::snprintf(shown, sizeof shown, "%s", text);
        make_printable(shown);
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: %s is '%s'; expected a positive number of seconds", kCreate, kTimeoutVariable, shown);
    }
    *timeout = std::min(seconds, kLongest);
    return ATTILE_OK;
}

// NULL if there is none, its sentence set.
const TransportKind *choose_kind(const attile_comm_options &options) {
    if (options.kind != nullptr) return find_transport("options->kind", options.kind);
    const char *name = environment(kKindVariable);
    if (name == nullptr || name[0] == '\0') name = options.callbacks != nullptr ? "callbacks" : "threads";
    return find_transport(kKindVariable, name);
}

int32_t read_rank(const attile_comm_options &options, const TransportKind &kind, TransportSetup *setup) {
    if (options.ranks < 0 || options.ranks > kMostRanks) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: options->ranks is %d; expected 0 to %d", kCreate, options.ranks, kMostRanks);
    }
    const bool known_by_kind = kind.plugins != nullptr && options.ranks == 0;
    setup->ranks = options.ranks == 0 && !known_by_kind ? 1 : options.ranks;
    setup->rank = options.rank;
    if (options.rank < 0 || (options.rank >= setup->ranks && !known_by_kind)) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: options->rank is %d; expected 0 to %d, since options->ranks is %d", kCreate,
                    options.rank, setup->ranks - 1, options.ranks);
    }
    return ATTILE_OK;
}

// What other kinds have no use for is a mistake.
int32_t check_use(const attile_comm_options &options, const TransportKind &kind) {
    if (options.callbacks != nullptr && kind.open != open_callbacks) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: options->callbacks is given, but kind is '%s'; expected NULL", kCreate, kind.name);
    }
    if (options.communicator != 0 && kind.plugins == nullptr) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: options->communicator is given, but kind is '%s'; expected 0", kCreate, kind.name);
    }
    return ATTILE_OK;
}

int32_t read_options(const attile_comm_options *given, attile_comm_options *options, const TransportKind **kind, TransportSetup *setup) {
    *options = {};
    if (given != nullptr)
        ATTILE_TRY(read_args(kCreate, "options", kCommOptionsFirstSize, ATTILE_COMM_ALLOW_MIXED_BACKENDS, given, options));
    *kind = choose_kind(*options);
    if (*kind == nullptr) return ATTILE_ERROR_BACKEND_NOT_FOUND;
    ATTILE_TRY(read_rank(*options, **kind, setup));
    ATTILE_TRY(check_use(*options, **kind));
    setup->group = options->group;
    setup->communicator = options->communicator;
    setup->callbacks = options->callbacks;
    return read_timeout(options->timeout_seconds, &setup->timeout);
}

// Whether all ranks are of one library, and of one backend unless that was allowed.
int32_t greet(CommState *state, Fallout *fallout) {
    if (state->link.ranks() == 1) return ATTILE_OK;
    Announcement announcement;
    const bool mixed = (state->flags & ATTILE_COMM_ALLOW_MIXED_BACKENDS) != 0;
    announcement.backend = mixed ? "" : state->backend;
    announcement.matters = {{"options->ranks", Shown::kNumber, state->link.ranks()},
                            {"ATTILE_COMM_ALLOW_MIXED_BACKENDS", Shown::kPresence, mixed ? 1 : 0}};
    return state->agreement.agree(state->link, kCreate, announcement, fallout);
}

// The others are told of a failure that they cannot come to by themselves.
int32_t join(CommState *state) {
    Fallout fallout = Fallout::kUntold;
    const int32_t status = guarded([&] { return greet(state, &fallout); });
    if (status != ATTILE_OK && fallout == Fallout::kUntold) state->link.give_up(status, error_text());
    return status;
}

int32_t create(attile_context *context, const attile_comm_options *given, attile_comm **comm) {
    if (comm == nullptr) return fail(ATTILE_ERROR_NULL_ARGUMENT, "%s: comm is NULL", kCreate);
    *comm = nullptr;
    attile_context_info info{};
    info.struct_size = sizeof info;
    ATTILE_TRY(attile_context_get_info(context, &info));
    attile_comm_options options;
    TransportSetup setup{};
    const TransportKind *kind = nullptr;
    ATTILE_TRY(read_options(given, &options, &kind, &setup));
    setup.context = context;
    setup.device_type = info.device_type;
    setup.device_index = info.device_index;

    const auto give = [](Comm *place) { comm_table.give(place, locks.contexts); };
    std::unique_ptr<Comm, decltype(give)> made(comm_table.take(locks.contexts), give);
    if (made == nullptr) return fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "%s: 65536 communicators are alive", kCreate);
    Transport transport;
    ATTILE_TRY(kind->open(*kind, &setup, &transport));
    std::shared_ptr<CommState> state;
    try {
        state = std::make_shared<CommState>(transport, kind->name, setup);
    } catch (...) {
        if (transport.close != nullptr) transport.close(transport.call.user);
        throw;
    }
    state->link.serve(kCreate);
    state->context = context;
    state->flags = options.flags;
    std::memcpy(state->backend, info.backend, sizeof state->backend);
    state->host_memory = info.device_type == kProcessor;
    if (!state->host_memory && transport.reaches_device) state->device_blocks = std::make_unique<DeviceBlocks>(context);
    ATTILE_TRY(join(state.get()));
    log(ATTILE_LOG_INFO, "communicator '%s': rank %d of %d", kind->name, setup.rank, setup.ranks);
    {
        const std::lock_guard<std::mutex> hold(made->lock);
        made->state = std::move(state);
    }
    made->process.store(process_generation());
    *comm = reinterpret_cast<attile_comm *>(comm_table.publish(made.release()));
    return ATTILE_OK;
}

int32_t get_info(attile_comm *handle, attile_comm_info *info) {
    constexpr const char *kName = "comm_get_info";
    std::shared_ptr<CommState> state;
    ATTILE_TRY(find_comm(kName, handle, &state));
    ATTILE_TRY(check_output(kName, "info", kCommInfoFirstSize, info));
    attile_comm_info full{};
    full.struct_size = sizeof full;
    std::snprintf(full.kind, sizeof full.kind, "%s", state->link.kind());
    full.rank = state->link.rank();
    full.ranks = state->link.ranks();
    full.timeout_seconds = state->link.timeout();
    full.calls = state->calls.load();
    full.transport_seconds = state->link.transport_seconds();
    full.status = state->broken(full.text, sizeof full.text);
    make_printable(full.text);
    write_output(full, info);
    return ATTILE_OK;
}

}  // namespace

void CommState::break_off(int32_t status, const char *why) {
    const std::lock_guard<std::mutex> hold(lock_);
    if (status_ != ATTILE_OK) return;
    status_ = status;
    std::snprintf(why_, sizeof why_, "%s", why);
}

int32_t CommState::broken(char *why, size_t capacity) {
    const std::lock_guard<std::mutex> hold(lock_);
    const size_t copied = std::min(std::strlen(why_), capacity - 1);
    std::memcpy(why, why_, copied);
    why[copied] = '\0';
    return status_;
}

int32_t find_comm(const char *operation, attile_comm *handle, std::shared_ptr<CommState> *state) {
    Comm *comm = comm_table.live(number_of(handle));
    if (comm != nullptr && comm->process.load() != process_generation()) {
        return fail(ATTILE_ERROR_AFTER_FORK, "%s: the communicator belongs to the process this one was forked from; make a new one",
                    operation);
    }
    if (comm != nullptr) {
        const std::lock_guard<std::mutex> hold(comm->lock);
        // It may have been destroyed since, and its place taken by another.
        if (comm_table.live(number_of(handle)) == comm) *state = comm->state;
    }
    if (*state != nullptr) return ATTILE_OK;
    if (handle == nullptr) return fail(ATTILE_ERROR_INVALID_COMM, "%s: the communicator is NULL", operation);
    return fail(ATTILE_ERROR_INVALID_COMM, "%s: the communicator %s: %p", operation,
                comm_table.was_live(number_of(handle)) ? "was destroyed" : "is not a communicator", static_cast<void *>(handle));
}

}  // namespace attile::core

using namespace attile::core;

extern "C" {

void attile_comm_options_init(attile_comm_options *options, uint64_t size) { init_struct(options, size); }

void attile_comm_callbacks_init(attile_comm_callbacks *callbacks, uint64_t size) { init_struct(callbacks, size); }

void attile_comm_info_init(attile_comm_info *info, uint64_t size) { init_struct(info, size); }

int32_t attile_comm_create(attile_context *context, const attile_comm_options *options, attile_comm **comm) {
    return guarded([&] { return create(context, options, comm); });
}

void attile_comm_destroy(attile_comm *handle) {
    (void)guarded([&]() -> int32_t {
        Comm *comm = comm_table.withdraw(number_of(handle));
        // In a forked child the threads that held its locks are gone: it is left alone.
        if (comm == nullptr || comm->process.load() != process_generation()) return ATTILE_OK;
        std::shared_ptr<CommState> state;
        {
            const std::lock_guard<std::mutex> hold(comm->lock);
            state = std::move(comm->state);
        }
        comm_table.give(comm, locks.contexts);
        // A call on another thread keeps the state; it learns from the link that this rank leaves.
        if (state->busy.load()) state->link.give_up(ATTILE_ERROR_INVALID_COMM, "its communicator was destroyed during a call");
        return ATTILE_OK;
    });
}

int32_t attile_comm_get_info(attile_comm *comm, attile_comm_info *info) {
    return guarded([&] { return get_info(comm, info); });
}

}  // extern "C"
