// SPDX-License-Identifier: Apache-2.0
// The functions of the stand-in. Environment: ATTILE_STAND_IN_VERSION, what ncclGetVersion says.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "stand_in.h"
#include "stand_in_room.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

using attile::test::nccl::Ring;
using attile::test::nccl::Room;
using attile::test::nccl::Shared;

namespace {

enum Result : int { kSuccess = 0, kInternal = 3, kInvalidArgument = 4, kInvalidUsage = 5, kRemote = 6, kInProgress = 7 };
constexpr int kVersion = 22705, kUnset = INT32_MIN;

struct Op {
    bool sending;
    unsigned char *data;
    std::uint64_t bytes;
    int peer;
    void *stream;
    std::uint64_t head;  // the size as it travels before the bytes, so that two that differ are seen
    std::uint64_t head_done = 0, done = 0;
    bool over() const { return head_done == sizeof head && done == bytes; }
};

std::atomic<attile_stand_in_run_fn> run_stream{nullptr};
std::atomic<int> alive{0}, failing_rank{-1}, failing_group{0}, failing_result{0};

}  // namespace

struct ncclComm {
    std::unique_ptr<Room> room;
    int rank = 0, ranks = 0, device = 0, splits = 0;
    bool blocking = true;
    std::atomic<bool> aborted{false}, leaving{false};
    std::atomic<int> splitting{0};  // calls that have to end before it does
    std::atomic<int> state{kSuccess};
    std::mutex lock;  // of `groups`
    std::deque<std::vector<Op>> groups;
    int carried_out = 0;
    std::atomic<void *> stream{nullptr};  // of the last group
    std::thread worker;

    ncclComm() { ++alive; }

    // How far an operation gets now.
    int progress(Shared &shared, Op &op) {
        Ring &ring = op.sending ? shared.rings[rank][op.peer] : shared.rings[op.peer][rank];
        const auto move = [&](unsigned char *data, std::uint64_t *done, std::uint64_t bytes) {
            for (;;) {
                const std::size_t went = op.sending ? write(ring, data + *done, static_cast<std::size_t>(bytes - *done))
                                                    : read(ring, data + *done, static_cast<std::size_t>(bytes - *done));
                if (went == 0) return;
                *done += went;
            }
        };
        if (op.sending && op.head_done == 0) op.head = op.bytes;
        move(reinterpret_cast<unsigned char *>(&op.head), &op.head_done, sizeof op.head);
        if (op.head_done != sizeof op.head) return kSuccess;
        if (op.head != op.bytes) return kInvalidArgument;
        move(op.data, &op.done, op.bytes);
        return kSuccess;
    }

    void run_what_is_queued() const {
        const attile_stand_in_run_fn run = run_stream.load();
        if (run != nullptr && stream.load() != nullptr) run(stream.load());
    }

    int carry_out(std::vector<Op> &group) {
        ++carried_out;
        stream.store(group.front().stream);
        run_what_is_queued();
        if (failing_rank.load() == rank && failing_group.load() == carried_out) return failing_result.load();
        int result = kSuccess;
        const bool ended = room->until(aborted, [&](Shared &shared) {
            bool all = true;
            for (std::size_t i = 0; i < group.size() && result == kSuccess; ++i) {
                // Between two ranks the order is that of the calls.
                const bool waits = std::any_of(group.begin(), group.begin() + static_cast<std::ptrdiff_t>(i), [&](const Op &other) {
                    return other.peer == group[i].peer && other.sending == group[i].sending && !other.over();
                });
                const std::uint64_t before = group[i].head_done + group[i].done;
                if (!waits) result = progress(shared, group[i]);
                if (group[i].head_done + group[i].done != before) pthread_cond_broadcast(&shared.changed);
                all = all && group[i].over();
            }
            return all || result != kSuccess;
        });
        return ended ? result : kInternal;
    }

    void work() {
        while (!leaving.load()) {
            std::vector<Op> group;
            {
                const std::lock_guard<std::mutex> hold(lock);
                if (!groups.empty()) group = groups.front();
            }
            if (group.empty()) {
                usleep(50);
                continue;
            }
            const int result = carry_out(group);
            const std::lock_guard<std::mutex> hold(lock);
            groups.pop_front();
            if (result != kSuccess) {
                state.store(result);
                return;
            }
            if (groups.empty()) state.store(kSuccess);
        }
    }

    void begin() {
        if (!blocking) worker = std::thread([this] { work(); });
    }

    ~ncclComm() {
        while (splitting.load() != 0) usleep(50);
        leaving.store(true);
        if (worker.joinable()) worker.join();
        --alive;
    }
};

namespace {

thread_local int depth = 0;
thread_local ncclComm *of_group = nullptr;
thread_local std::vector<Op> opened;

int add(bool sending, void *data, std::size_t bytes, int type, int peer, ncclComm *comm, void *stream) {
    if (comm == nullptr || type != 0 || peer < 0 || peer >= comm->ranks || peer == comm->rank) return kInvalidArgument;
    if (depth == 0 || (of_group != nullptr && of_group != comm)) return kInvalidUsage;
    of_group = comm;
    opened.push_back({sending, static_cast<unsigned char *>(data), bytes, peer, stream, 0});
    return kSuccess;
}

int join(ncclComm **made, const std::string &name, int ranks, int rank, int device, bool blocking, const std::atomic<bool> &aborted) {
    std::unique_ptr<ncclComm> comm = std::make_unique<ncclComm>();
    comm->room.reset(Room::open(name, ranks));
    if (comm->room == nullptr) return kInvalidArgument;
    comm->rank = rank;
    comm->ranks = ranks;
    comm->device = device;
    comm->blocking = blocking;
    bool counted = false;
    const bool all = comm->room->until(aborted, [&](Shared &shared) {
        if (!counted) ++shared.arrived, pthread_cond_broadcast(&shared.changed);
        counted = true;
        return shared.arrived >= ranks;
    });
    if (!all) return kInternal;
    comm->begin();
    *made = comm.release();
    return kSuccess;
}

const std::atomic<bool> never{false};

}  // namespace

EXPORTED int ncclGetVersion(int *version) {
    const char *said = std::getenv("ATTILE_STAND_IN_VERSION");
    *version = said != nullptr ? std::atoi(said) : kVersion;
    return kSuccess;
}

EXPORTED const char *ncclGetErrorString(int result) {
    return result == kRemote ? "a remote process failed" : result == kInvalidArgument ? "invalid argument" : "internal error";
}

EXPORTED const char *ncclGetLastError(ncclComm *) { return "words of the stand-in"; }

EXPORTED int ncclGetUniqueId(ncclUniqueId *id) {
    static std::atomic<int> count{0};
    timespec now = {};
    clock_gettime(CLOCK_REALTIME, &now);
    std::memset(id, 0, sizeof *id);
    std::snprintf(id->internal, sizeof id->internal, "/attile_nccl_%d_%d_%lld", static_cast<int>(getpid()), ++count,
                  static_cast<long long>(now.tv_nsec));
    return kSuccess;
}

EXPORTED int ncclCommInitRank(ncclComm **comm, int ranks, ncclUniqueId id, int rank) {
    return join(comm, id.internal, ranks, rank, 0, true, never);
}

EXPORTED int ncclCommInitAll(ncclComm **comms, int ranks, const int *devices) {
    ncclUniqueId id;
    (void)ncclGetUniqueId(&id);
    std::vector<std::thread> threads;
    std::atomic<int> result{kSuccess};
    for (int rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&, rank] {
            const int own = join(&comms[rank], id.internal, ranks, rank, devices != nullptr ? devices[rank] : rank, true, never);
            if (own != kSuccess) result.store(own);
        });
    }
    for (std::thread &thread : threads) thread.join();
    return result.load();
}

EXPORTED int ncclCommCount(const ncclComm *comm, int *ranks) {
    *ranks = comm->ranks;
    return kSuccess;
}

EXPORTED int ncclCommUserRank(const ncclComm *comm, int *rank) {
    *rank = comm->rank;
    return comm->ranks > 0 ? kSuccess : kInvalidArgument;
}

EXPORTED int ncclCommCuDevice(const ncclComm *comm, int *device) {
    *device = comm->device;
    return kSuccess;
}

EXPORTED int ncclCommGetAsyncError(ncclComm *comm, int *result) {
    *result = comm->state.load();
    if (*result == kSuccess) comm->run_what_is_queued();
    return kSuccess;
}

struct Inside {
    explicit Inside(std::atomic<int> &count) : calls(count) { ++calls; }
    ~Inside() { --calls; }
    Inside(const Inside &) = delete;
    Inside &operator=(const Inside &) = delete;
    std::atomic<int> &calls;
};

// The first members of NCCL's options.
struct Options {
    std::size_t size;
    unsigned magic, version;
    int blocking;
};

#ifndef STAND_IN_LACKS_SPLIT
EXPORTED int ncclCommSplit(ncclComm *comm, int colour, int key, ncclComm **made, const Options *options) {
    *made = nullptr;
    const Inside inside(comm->splitting);
    if (options != nullptr && (options->magic != 0xcafebeef || options->size < sizeof(Options))) return kInvalidArgument;
    const int number = comm->splits++;
    if (number >= attile::test::nccl::kMostSplits) return kInvalidUsage;
    bool counted = false;
    int ranks = 0, rank = 0;
    const bool all = comm->room->until(comm->aborted, [&](Shared &shared) {
        Shared::Split &split = shared.splits[number];
        if (!counted) {
            split.colours[comm->rank] = colour;
            split.keys[comm->rank] = key;
            ++split.arrived;
            pthread_cond_broadcast(&shared.changed);
        }
        counted = true;
        if (split.arrived < comm->ranks) return false;
        for (int other = 0; other < comm->ranks; ++other) {
            if (split.colours[other] != colour) continue;
            ++ranks;
            if (split.keys[other] < key || (split.keys[other] == key && other < comm->rank)) ++rank;
        }
        return true;
    });
    if (!all) return kInternal;
    if (colour < 0) return kSuccess;
    const bool blocking = options != nullptr && options->blocking != kUnset ? options->blocking != 0 : comm->blocking;
    const std::string name = comm->room->name() + "." + std::to_string(number) + "." + std::to_string(colour);
    return join(made, name, ranks, rank, comm->device, blocking, comm->aborted);
}
#endif

EXPORTED int ncclCommFinalize(ncclComm *comm) { return comm->state.load(); }

EXPORTED int ncclCommDestroy(ncclComm *comm) {
    delete comm;
    return kSuccess;
}

EXPORTED int ncclCommAbort(ncclComm *comm) {
    comm->aborted.store(true);
    delete comm;
    return kSuccess;
}

EXPORTED int ncclGroupStart() {
    ++depth;
    return kSuccess;
}

EXPORTED int ncclGroupEnd() {
    if (depth == 0) return kInvalidUsage;
    if (--depth > 0) return kSuccess;
    ncclComm *comm = of_group;
    std::vector<Op> group;
    group.swap(opened);
    of_group = nullptr;
    if (comm == nullptr) return kSuccess;
    if (comm->blocking) return comm->carry_out(group);
    if (comm->state.load() != kSuccess) return kInvalidUsage;  // NCCL wants to be asked first
    comm->state.store(kInProgress);
    const std::lock_guard<std::mutex> hold(comm->lock);
    comm->groups.push_back(std::move(group));
    return kInProgress;
}

EXPORTED int ncclSend(const void *data, std::size_t count, int type, int peer, ncclComm *comm, void *stream) {
    return add(true, const_cast<void *>(data), count, type, peer, comm, stream);  // only read
}

EXPORTED int ncclRecv(void *data, std::size_t count, int type, int peer, ncclComm *comm, void *stream) {
    return add(false, data, count, type, peer, comm, stream);
}

EXPORTED int attile_stand_in_alive() { return alive.load(); }

EXPORTED void attile_stand_in_fail(int rank, int group, int result) {
    failing_rank.store(rank);
    failing_group.store(group);
    failing_result.store(result);
}

EXPORTED void attile_stand_in_streams(attile_stand_in_run_fn run) { run_stream.store(run); }
