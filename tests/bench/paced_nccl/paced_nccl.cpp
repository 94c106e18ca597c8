// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mover.h"
#include "paced.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

using attile::bench::Mover;

namespace {

using Clock = std::chrono::steady_clock;

enum Result : int { kSuccess = 0, kDriver = 1, kInvalidArgument = 4, kInvalidUsage = 5, kRemote = 6, kInProgress = 7 };
constexpr int kVersion = 22705;
constexpr std::chrono::seconds kLatest{120};  // a message that is not there by then does not come

Mover *mover = nullptr;  // until the process ends
std::atomic<double> rate{0}, latency{0};
thread_local std::string words;  // of the last failure

int fail(Result result, const std::string &why) {
    words = why;
    return result;
}

int check(const std::string &failed) { return failed.empty() ? kSuccess : fail(kDriver, failed); }

struct Release {
    void operator()(void *memory) const { (void)mover->release(memory); }
};

struct Message {
    std::unique_ptr<void, Release> memory;
    std::size_t bytes;
};

// Ranks whose communicators were made together, and what they sent each other.
struct World {
    explicit World(int count) : ranks(count), boxes(number(count, 0)) {}
    std::size_t number(int from, int to) const {
        return static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(to);
    }
    std::deque<Message> &box(int from, int to) { return boxes[number(from, to)]; }

    const int ranks;
    std::atomic<bool> replays{false};
    std::mutex lock;  // of `boxes`, which do not change in a replay
    std::condition_variable changed;
    std::vector<std::deque<Message>> boxes;
};

struct Op {
    bool sending;
    void *data;
    std::size_t bytes;
    int peer;
    void *stream;
};

}  // namespace

struct ncclComm {
    ncclComm(std::shared_ptr<World> of, int own)
        : world(std::move(of)),
          rank(own),
          replays(world->replays.load()),
          sent(static_cast<std::size_t>(world->ranks)),
          received(sent.size()) {}

    const std::shared_ptr<World> world;
    const int rank;
    const bool replays;
    std::vector<std::size_t> sent, received;  // messages so far, by peer
    Clock::time_point over = Clock::now();    // when the last group is

    const Message *next_of(int from, int to, std::vector<std::size_t> *counts) {
        const std::deque<Message> &box = world->box(from, to);
        std::size_t &count = (*counts)[static_cast<std::size_t>(from == rank ? to : from)];
        return count < box.size() ? &box[count++] : nullptr;
    }

    int fail_size(const Op &op, std::size_t bytes) const {
        return fail(kInvalidArgument, "a message of " + std::to_string(op.bytes) + " bytes between ranks " + std::to_string(rank) +
                                          " and " + std::to_string(op.peer) + "; expected " + std::to_string(bytes));
    }

    int record(const std::vector<Op> &group) {
        void *const stream = group.front().stream;
        int result = check(mover->finish(stream));  // what is sent has been computed
        std::vector<Message> messages;
        for (const Op &op : group) {
            if (!op.sending || result != kSuccess) continue;
            void *memory = nullptr;
            result = check(mover->allocate(op.bytes, &memory));
            if (result != kSuccess) break;
            messages.push_back({std::unique_ptr<void, Release>(memory), op.bytes});
            result = check(mover->copy(memory, op.data, op.bytes, stream));
        }
        if (result == kSuccess) result = check(mover->finish(stream));
        if (result != kSuccess) return result;
        std::unique_lock<std::mutex> hold(world->lock);
        auto message = messages.begin();
        for (const Op &op : group) {
            if (op.sending) world->box(rank, op.peer).push_back(std::move(*message++));
        }
        world->changed.notify_all();
        for (const Op &op : group) {
            if (op.sending) continue;
            const Message *found = nullptr;
            if (!world->changed.wait_for(hold, kLatest, [&] { return (found = next_of(op.peer, rank, &received)) != nullptr; })) {
                return fail(kRemote, "no message came from rank " + std::to_string(op.peer));
            }
            if (found->bytes != op.bytes) return fail_size(op, found->bytes);
            result = check(mover->copy(op.data, found->memory.get(), op.bytes, stream));
            if (result != kSuccess) return result;
        }
        hold.unlock();
        return check(mover->finish(stream));
    }

    int replay(const std::vector<Op> &group) {
        const Clock::time_point begin = std::max(over, Clock::now());
        std::size_t bytes_sent = 0, bytes_received = 0;
        for (const Op &op : group) {
            const Message *kept = op.sending ? next_of(rank, op.peer, &sent) : next_of(op.peer, rank, &received);
            if (kept == nullptr) return fail(kInvalidUsage, "more messages than were recorded");
            if (kept->bytes != op.bytes) return fail_size(op, kept->bytes);
            (op.sending ? bytes_sent : bytes_received) += op.bytes;
            const int result = op.sending ? kSuccess : check(mover->copy(op.data, kept->memory.get(), op.bytes, op.stream));
            if (result != kSuccess) return result;
        }
        const double of_rate = rate.load(), bytes = static_cast<double>(std::max(bytes_sent, bytes_received));
        const std::chrono::duration<double> takes(of_rate > 0 ? bytes / of_rate + latency.load() : 0);
        over = begin + std::chrono::ceil<Clock::duration>(takes);
        return kSuccess;
    }
};

namespace {

thread_local int depth = 0;
thread_local ncclComm *of_group = nullptr;
thread_local std::vector<Op> opened;

int add(bool sending, void *data, std::size_t bytes, int type, int peer, ncclComm *comm, void *stream) {
    if (comm == nullptr || type != 0 || peer < 0 || peer >= comm->world->ranks || peer == comm->rank) {
        return fail(kInvalidArgument, "a message of another type, or to no other rank");
    }
    if (depth == 0 || (of_group != nullptr && of_group != comm)) return fail(kInvalidUsage, "a message in no group of its communicator");
    if (!opened.empty() && opened.front().stream != stream) return fail(kInvalidUsage, "a group on two streams");
    of_group = comm;
    opened.push_back({sending, data, bytes, peer, stream});
    return kSuccess;
}

}  // namespace

EXPORTED int ncclGetVersion(int *version) {
    *version = kVersion;
    return kSuccess;
}

EXPORTED const char *ncclGetErrorString(int result) { return result == kRemote ? "a rank did not come" : "the paced library"; }

EXPORTED const char *ncclGetLastError(ncclComm *) { return words.c_str(); }

EXPORTED int ncclCommInitAll(ncclComm **comms, int ranks, const int *devices) {
    if (mover == nullptr) return fail(kInvalidUsage, "attile_paced_open was not called");
    if (devices == nullptr || std::any_of(devices, devices + ranks, [](int device) { return device != 0; })) {
        return fail(kInvalidArgument, "ranks of more than the first device");
    }
    const auto world = std::make_shared<World>(ranks);
    for (int rank = 0; rank < ranks; ++rank) comms[rank] = new ncclComm(world, rank);
    return kSuccess;
}

EXPORTED int ncclCommCount(const ncclComm *comm, int *ranks) {
    *ranks = comm->world->ranks;
    return kSuccess;
}

EXPORTED int ncclCommUserRank(const ncclComm *comm, int *rank) {
    *rank = comm->rank;
    return kSuccess;
}

EXPORTED int ncclCommCuDevice(const ncclComm *, int *device) {
    *device = 0;
    return kSuccess;
}

EXPORTED int ncclCommGetAsyncError(ncclComm *comm, int *result) {
    *result = Clock::now() < comm->over ? kInProgress : kSuccess;
    return kSuccess;
}

// Of all ranks, and without waiting for them: one that is not there is missed at its first message.
EXPORTED int ncclCommSplit(ncclComm *comm, int colour, int /*key*/, ncclComm **made, const void * /*options*/) {
    *made = colour < 0 ? nullptr : new ncclComm(comm->world, comm->rank);
    return kSuccess;
}

EXPORTED int ncclCommFinalize(ncclComm *comm) { return Clock::now() < comm->over ? kInProgress : kSuccess; }

EXPORTED int ncclCommDestroy(ncclComm *comm) {
    delete comm;
    return kSuccess;
}

EXPORTED int ncclCommAbort(ncclComm *comm) {
    delete comm;
    return kSuccess;
}

EXPORTED int ncclGroupStart() {
    ++depth;
    return kSuccess;
}

EXPORTED int ncclGroupEnd() {
    if (depth == 0) return fail(kInvalidUsage, "no group is open");
    if (--depth > 0) return kSuccess;
    ncclComm *comm = of_group;
    std::vector<Op> group;
    group.swap(opened);
    of_group = nullptr;
    if (group.empty()) return kSuccess;
    return comm->replays ? comm->replay(group) : comm->record(group);
}

EXPORTED int ncclSend(const void *data, std::size_t count, int type, int peer, ncclComm *comm, void *stream) {
    return add(true, const_cast<void *>(data), count, type, peer, comm, stream);  // only read
}

EXPORTED int ncclRecv(void *data, std::size_t count, int type, int peer, ncclComm *comm, void *stream) {
    return add(false, data, count, type, peer, comm, stream);
}

EXPORTED const char *attile_paced_open(int on_host) {
    words.clear();
    mover = (on_host != 0 ? attile::bench::make_host_mover() : attile::bench::make_cuda_mover(&words)).release();
    return mover != nullptr ? nullptr : words.c_str();
}

EXPORTED void attile_paced_replay(ncclComm *comm) { comm->world->replays.store(true); }

EXPORTED void attile_paced_link(double bytes_per_second, double latency_seconds) {
    rate.store(bytes_per_second);
    latency.store(latency_seconds);
}
