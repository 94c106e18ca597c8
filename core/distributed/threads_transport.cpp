// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads of this process. A message is copied once, from the sender's memory to the receiver's, by whoever of the two comes
// second; then both are free.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "distributed/transport.h"
#include "fork.h"
#include "process.h"
#include "status.h"

namespace attile::core {
namespace {

constexpr int32_t kMostThreads = 1024;

using Clock = std::chrono::steady_clock;

enum class State { kPosted, kCopying, kDone };

struct Message {
    void *data;  // of a receive; a send's is only read
    int64_t bytes;
    int32_t peer;
    bool sending;
    State state;
    Message *next;  // in its line
};

// Messages of one side that the other side has not met yet.
struct MessageLine {
    Message *first, *last;
    bool given_up;  // One was taken back: those behind it would meet the wrong ones, so no two meet any more.

    void append(Message *message) {
        (first == nullptr ? first : last->next) = message;
        last = message;
    }
    void remove(const Message *message) {
        Message *before = nullptr;
        for (Message *at = first; at != message; at = at->next) before = at;
        (before == nullptr ? first : before->next) = message->next;
        if (last == message) last = before;
    }
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
    std::vector<bool> left;           // ranks that destroyed their communicator
    std::vector<MessageLine> posted;  // from * ranks + to
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

// Messages are made when a rank joins, as many as may be under way: none fails later for want of memory.
struct Seat {
    std::shared_ptr<Group> group;
    int32_t rank;
    std::unique_ptr<Message[]> messages;
    int64_t used = 0, alive = 0;

    // All messages that were started are over before others are.
    Message *take() {
        ++alive;
        return &messages[static_cast<size_t>(used++)];
    }
    void give() {
        if (--alive == 0) used = 0;
    }
};

// Groups that are not complete. Each is kept alive by those who wait for it, and leaves the list before they do.
constinit Group *forming = nullptr;

// The ranks that have not come, as far as there is room.
struct MissingText {
    explicit MissingText(const Group &group) {
        size_t length = 0;
        for (int32_t rank = 0; rank < group.ranks; ++rank) {
            if (group.taken[rank]) continue;
            if (length + 16 > sizeof text) {
                std::snprintf(text + length, sizeof text - length, ", ...");
                return;
            }
            length += static_cast<size_t>(std::snprintf(text + length, sizeof text - length, "%s%d", length == 0 ? "" : ", ", rank));
        }
    }
    char text[200] = "";
};

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

// False if there is no such group, and none to begin.
bool find_group(int64_t key, std::shared_ptr<Group> *fresh) {
    for (Group *group = forming; group != nullptr; group = group->next_forming) {
        if (group->key != key || group->process != process_generation()) continue;
        *fresh = group->shared_from_this();
        return true;
    }
    if (*fresh == nullptr) return false;
    (*fresh)->next_forming = forming;
    forming = fresh->get();
    return true;
}

int32_t take_seat(const TransportSetup &setup, std::shared_ptr<Group> *taken, bool *complete) {
    std::unique_lock<std::mutex> hold(locks.contexts);
    if (!find_group(setup.group, taken)) {
        hold.unlock();  // under it only the C library is called
        *taken = std::make_shared<Group>(setup.group, setup.ranks);
        hold.lock();
        (void)find_group(setup.group, taken);
    }
    Group *group = taken->get();
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

MissingText give_up_waiting(const Group *group) {
    const std::lock_guard<std::mutex> hold(locks.contexts);
    const MissingText missing(*group);
    if (missing.text[0] != '\0') unlist(group);
    return missing;
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
    const MissingText missing = give_up_waiting(&group);
    std::unique_lock<std::mutex> hold(group.lock);
    if (missing.text[0] == '\0') {  // the last one came just now, and is about to say so
        group.changed.wait(hold, [&] { return group.complete; });
        return ATTILE_OK;
    }
    char why[sizeof group.why];
    std::snprintf(why, sizeof why, "rank %d waited %g s for ranks of group %lld that did not come: %s", setup.rank, setup.timeout,
                  static_cast<long long>(group.key), missing.text);
    group.fail_all(setup.rank, ATTILE_ERROR_RANK_FAILED, why);
    return fail(ATTILE_ERROR_RANK_LATE, "comm_create: within %g s these ranks of group %lld did not come: %s", setup.timeout,
                static_cast<long long>(group.key), missing.text);
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

MessageLine &line_of(const Seat &seat, const Message &message) {
    const int32_t from = message.sending ? seat.rank : message.peer, to = message.sending ? message.peer : seat.rank;
    return seat.group->posted[static_cast<size_t>(from) * seat.group->ranks + to];
}

int32_t start(Seat &seat, const Message &wanted, void **request) {
    Group &group = *seat.group;
    std::unique_lock<std::mutex> hold(group.lock);
    MessageLine &line = line_of(seat, wanted);
    Message *other = line.first;
    if (other == nullptr || other->sending == wanted.sending || line.given_up) {
        if (is_hopeless(group, wanted)) return ATTILE_ERROR_RANK_FAILED;
        Message *message = seat.take();
        *message = wanted;
        line.append(message);
        *request = message;
        return ATTILE_OK;
    }
    if (other->bytes != wanted.bytes) {
        set_backend_words("the two ranks name different sizes of one message");
        return ATTILE_ERROR_INTERNAL;
    }
    line.remove(other);
    other->state = State::kCopying;
    hold.unlock();
    const Message &source = wanted.sending ? wanted : *other, &target = wanted.sending ? *other : wanted;
    std::memcpy(target.data, source.data, static_cast<size_t>(source.bytes));
    hold.lock();
    Message *message = seat.take();
    *message = wanted;
    other->state = message->state = State::kDone;
    *request = message;
    group.changed.notify_all();
    return ATTILE_OK;
}

int32_t start_send(void *user, const void *data, int64_t bytes, int32_t to, void **request) {
    // The table has one kind of pointer; a send's memory is only read.
    return start(*static_cast<Seat *>(user), {const_cast<void *>(data), bytes, to, true, State::kPosted, nullptr}, request);
}

int32_t start_receive(void *user, void *data, int64_t bytes, int32_t from, void **request) {
    return start(*static_cast<Seat *>(user), {data, bytes, from, false, State::kPosted, nullptr}, request);
}

int32_t wait_for(const Seat &seat, const Message *message, double seconds) {
    Group &group = *seat.group;
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
        MessageLine &line = line_of(seat, *message);
        line.remove(message);
        line.given_up = true;
        return answer;
    }
    // The other rank copies: it ends soon, and uses this memory until then.
    group.changed.wait(hold, [&] { return message->state == State::kDone; });
    return ATTILE_OK;
}

int32_t wait(void *user, void *request, double seconds) {
    Seat &seat = *static_cast<Seat *>(user);
    const int32_t answer = wait_for(seat, static_cast<const Message *>(request), seconds);
    seat.give();
    return answer;
}

void give_up(void *user, int32_t /*status*/, const char *why) {
    const Seat &seat = *static_cast<Seat *>(user);
    Group &group = *seat.group;
    const std::lock_guard<std::mutex> hold(group.lock);
    group.fail_all(seat.rank, ATTILE_ERROR_RANK_FAILED, why);
}

void leave(void *user) {
    const std::unique_ptr<Seat> seat(static_cast<Seat *>(user));
    const std::lock_guard<std::mutex> hold(seat->group->lock);
    seat->group->left[seat->rank] = true;
    seat->group->changed.notify_all();
}

}  // namespace

int32_t open_threads(const TransportKind & /*kind*/, TransportSetup *given, Transport *transport) {
    const TransportSetup &setup = *given;
    if (setup.ranks > kMostThreads) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "comm_create: options->ranks is %d; expected at most %d with kind 'threads'", setup.ranks,
                    kMostThreads);
    }
    auto seat = std::make_unique<Seat>();
    seat->messages = std::make_unique_for_overwrite<Message[]>(static_cast<size_t>(kMostMessages) * static_cast<size_t>(setup.ranks));
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
    transport->close = leave;
    transport->tells_why = true;
    return ATTILE_OK;
}

}  // namespace attile::core
