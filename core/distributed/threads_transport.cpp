// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads of this process. A message is copied once, from the sender's memory to the receiver's, by whoever of the two comes
// second; then both are free.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "distributed/transport.h"
#include "fork.h"
#include "process.h"
#include "status.h"

namespace attile::core {
namespace {

constexpr int32_t kMostRanks = 1024;

using Clock = std::chrono::steady_clock;

enum class State { kPosted, kCopying, kDone };

struct Message {
    void *data;  // of a receive; a send's is only read
    int64_t bytes;
    int32_t peer;
    bool sending;
    State state = State::kPosted;
};

struct Group : std::enable_shared_from_this<Group> {
    Group(int64_t key_, int32_t ranks_)
        : key(key_),
          ranks(ranks_),
          process(process_generation()),
          taken(ranks_, false),
          left(ranks_, false),
          posted(static_cast<size_t>(ranks_) * ranks_) {}

    const int64_t key;
    const int32_t ranks;
    const uint64_t process;

    // Guarded by locks.contexts while the group forms.
    std::vector<bool> taken;
    int32_t seats = 0;
    Group *next_forming = nullptr;

    // Guarded by `lock`.
    std::mutex lock;
    std::condition_variable changed;
    bool complete = false;
    std::vector<bool> left;                     // ranks that destroyed their communicator
    std::vector<std::deque<Message *>> posted;  // from * ranks + to: those of one side, which the other side has not met yet
    int32_t failed_rank = -1;
    int32_t failure = ATTILE_ERROR_RANK_FAILED;  // of all the others
    char why[512] = "";

    // Under the lock. The first failure stays.
    void fail_all(int32_t rank, int32_t status, const char *text) {
        if (failed_rank >= 0) return;
        failed_rank = rank;
        failure = status;
        std::snprintf(why, sizeof why, "%s", text);
        changed.notify_all();
    }
};

struct Seat {
    std::shared_ptr<Group> group;
    int32_t rank;
};

// Groups that are not complete. Each is kept alive by those who wait for it, and leaves the list before they do.
constinit Group *forming = nullptr;

std::string missing_ranks(const Group &group) {
    std::string list;
    for (int32_t rank = 0; rank < group.ranks; ++rank) {
        if (!group.taken[rank]) list += (list.empty() ? "" : ", ") + std::to_string(rank);
    }
    return list;
}

void unlist(const Group *group) {
    for (Group **at = &forming; *at != nullptr; at = &(*at)->next_forming) {
        if (*at != group) continue;
        *at = group->next_forming;
        return;
    }
}

// A rank that does not fit: the group cannot be completed any more, which all of it hear.
int32_t refuse_seat(const TransportSetup &setup, Group *group, int32_t status, const char *why) {
    unlist(group);
    const std::lock_guard<std::mutex> hold(group->lock);
    group->fail_all(setup.rank, status, why);
    return fail(status, "comm_create: %s", why);
}

int32_t take_seat(const TransportSetup &setup, std::shared_ptr<Group> *taken, bool *complete) {
    // Made before the lock is taken, under which only the C library is called.
    std::shared_ptr<Group> fresh = std::make_shared<Group>(setup.group, setup.ranks);
    const std::lock_guard<std::mutex> hold(locks.contexts);
    Group *group = forming;
    while (group != nullptr && (group->key != setup.group || group->process != process_generation())) group = group->next_forming;
    if (group == nullptr) {
        fresh->next_forming = forming;
        group = forming = fresh.get();
        *taken = std::move(fresh);
    } else {
        *taken = group->shared_from_this();
    }
    char why[160];
    if (group->ranks != setup.ranks) {
        std::snprintf(why, sizeof why, "options->ranks is %d on rank %d of group %lld, and another rank says %d", setup.ranks, setup.rank,
                      static_cast<long long>(setup.group), group->ranks);
        return refuse_seat(setup, group, ATTILE_ERROR_RANKS_DISAGREE, why);
    }
    if (group->taken[setup.rank]) {
        std::snprintf(why, sizeof why, "options->rank is %d on two threads of group %lld", setup.rank, static_cast<long long>(setup.group));
        return refuse_seat(setup, group, ATTILE_ERROR_INVALID_VALUE, why);
    }
    group->taken[setup.rank] = true;
    *complete = ++group->seats == group->ranks;
    if (*complete) unlist(group);
    return ATTILE_OK;
}

// Waits for the other ranks. The first whose time is over ends it for all.
int32_t wait_for_ranks(const TransportSetup &setup, Group &group) {
    const auto latest = Clock::now() + std::chrono::duration<double>(setup.timeout);
    {
        std::unique_lock<std::mutex> hold(group.lock);
        while (!group.complete && group.failed_rank < 0 && Clock::now() < latest) group.changed.wait_until(hold, latest);
        if (group.complete) return ATTILE_OK;
        if (group.failed_rank >= 0) return fail(group.failure, "comm_create: %s", group.why);
    }
    std::string missing;
    {
        const std::lock_guard<std::mutex> hold(locks.contexts);
        if (group.seats < group.ranks) {
            missing = missing_ranks(group);
            unlist(&group);
        }
    }
    std::unique_lock<std::mutex> hold(group.lock);
    if (missing.empty()) {  // the last one came just now, and is about to say so
        group.changed.wait(hold, [&] { return group.complete; });
        return ATTILE_OK;
    }
    char why[sizeof group.why];
    std::snprintf(why, sizeof why, "rank %d waited %g s for ranks of group %lld that did not come: %s", setup.rank, setup.timeout,
                  static_cast<long long>(group.key), missing.c_str());
    group.fail_all(setup.rank, ATTILE_ERROR_RANK_FAILED, why);
    return fail(ATTILE_ERROR_RANK_LATE, "comm_create: within %g s these ranks of group %lld did not come: %s", setup.timeout,
                static_cast<long long>(group.key), missing.c_str());
}

// Under the group's lock: whether a message can no longer come about. The reason becomes the transport's words.
bool is_hopeless(const Group &group, const Message &message) {
    if (group.failed_rank >= 0) {
        set_backend_words(group.why);
        return true;
    }
    if (!group.left[message.peer]) return false;
    char words[64];
    std::snprintf(words, sizeof words, "rank %d destroyed its communicator", message.peer);
    set_backend_words(words);
    return true;
}

std::deque<Message *> &line_of(const Seat &seat, const Message &message) {
    const int32_t from = message.sending ? seat.rank : message.peer, to = message.sending ? message.peer : seat.rank;
    return seat.group->posted[static_cast<size_t>(from) * seat.group->ranks + to];
}

int32_t start(const Seat &seat, std::unique_ptr<Message> message, void **request) {
    Group &group = *seat.group;
    std::unique_lock<std::mutex> hold(group.lock);
    std::deque<Message *> &line = line_of(seat, *message);
    Message *other = line.empty() ? nullptr : line.front();
    if (other == nullptr || other->sending == message->sending) {
        if (is_hopeless(group, *message)) return ATTILE_ERROR_RANK_FAILED;
        line.push_back(message.get());
        *request = message.release();
        return ATTILE_OK;
    }
    if (other->bytes != message->bytes) {
        set_backend_words("the two ranks name different sizes of one message");
        return ATTILE_ERROR_INTERNAL;
    }
    line.pop_front();
    other->state = State::kCopying;
    hold.unlock();
    const Message &source = message->sending ? *message : *other, &target = message->sending ? *other : *message;
    std::memcpy(target.data, source.data, static_cast<size_t>(source.bytes));
    hold.lock();
    other->state = message->state = State::kDone;
    *request = message.release();
    group.changed.notify_all();
    return ATTILE_OK;
}

int32_t start_send(void *user, const void *data, int64_t bytes, int32_t to, void **request) {
    // The table has one kind of pointer; a send's memory is only read.
    return start(*static_cast<Seat *>(user), std::make_unique<Message>(Message{const_cast<void *>(data), bytes, to, true}), request);
}

int32_t start_receive(void *user, void *data, int64_t bytes, int32_t from, void **request) {
    return start(*static_cast<Seat *>(user), std::make_unique<Message>(Message{data, bytes, from, false}), request);
}

int32_t wait(void *user, void *request, double seconds) {
    const Seat &seat = *static_cast<Seat *>(user);
    Group &group = *seat.group;
    const std::unique_ptr<Message> message(static_cast<Message *>(request));
    const auto latest = Clock::now() + std::chrono::duration<double>(seconds);
    std::unique_lock<std::mutex> hold(group.lock);
    int32_t answer = ATTILE_OK;
    while (message->state == State::kPosted) {
        if (is_hopeless(group, *message)) {
            answer = ATTILE_ERROR_RANK_FAILED;
        } else if (Clock::now() >= latest) {
            answer = ATTILE_ERROR_RANK_LATE;
        } else {
            group.changed.wait_until(hold, latest);
            continue;
        }
        std::erase(line_of(seat, *message), message.get());
        return answer;
    }
    // The other rank copies: it ends soon, and uses this memory until then.
    group.changed.wait(hold, [&] { return message->state == State::kDone; });
    return ATTILE_OK;
}

void give_up(void *user, int32_t status, const char *why) {
    const Seat &seat = *static_cast<Seat *>(user);
    Group &group = *seat.group;
    const std::lock_guard<std::mutex> hold(group.lock);
    char text[sizeof group.why];
    std::snprintf(text, sizeof text, "rank %d failed with %s: %s", seat.rank, attile_status_name(status), why);
    group.fail_all(seat.rank, ATTILE_ERROR_RANK_FAILED, text);
}

void close(void *user) {
    const std::unique_ptr<Seat> seat(static_cast<Seat *>(user));
    const std::lock_guard<std::mutex> hold(seat->group->lock);
    seat->group->left[seat->rank] = true;
    seat->group->changed.notify_all();
}

}  // namespace

int32_t open_threads(const TransportSetup &setup, Transport *transport) {
    if (setup.callbacks != nullptr) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "comm_create: options->callbacks is given, but kind is 'threads'; expected NULL");
    }
    if (setup.ranks > kMostRanks) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "comm_create: options->ranks is %d; expected at most %d with kind 'threads'", setup.ranks,
                    kMostRanks);
    }
    auto seat = std::make_unique<Seat>();
    bool complete = false;
    ATTILE_TRY(take_seat(setup, &seat->group, &complete));
    if (complete) {
        const std::lock_guard<std::mutex> hold(seat->group->lock);
        seat->group->complete = true;
        seat->group->changed.notify_all();
    } else {
        ATTILE_TRY(wait_for_ranks(setup, *seat->group));
    }
    seat->rank = setup.rank;
    transport->call.send = start_send;
    transport->call.receive = start_receive;
    transport->call.wait = wait;
    transport->call.give_up = give_up;
    transport->call.user = seat.release();
    transport->close = close;
    transport->tells_why = true;
    return ATTILE_OK;
}

}  // namespace attile::core
