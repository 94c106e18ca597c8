// SPDX-License-Identifier: Apache-2.0
#include "stand_in_room.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>

namespace attile::test::nccl {
namespace {

constexpr long kNap = 5'000'000;  // nanoseconds, until a wait looks again whether it was aborted

void make_lock(Shared *shared, int ranks) {
    std::uint32_t none = 0;
    if (!shared->ready.compare_exchange_strong(none, 1)) {
        while (shared->ready.load() != 2) sched_yield();
        return;
    }
    pthread_mutexattr_t mutex;
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&shared->lock, &mutex);
    pthread_mutexattr_destroy(&mutex);
    pthread_condattr_t condition;
    pthread_condattr_init(&condition);
    pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&shared->changed, &condition);
    pthread_condattr_destroy(&condition);
    shared->ranks = ranks;
    shared->ready.store(2);
}

}  // namespace

Room *Room::open(const std::string &name, int ranks) {
    if (ranks < 1 || ranks > kMostRanks) return nullptr;
    const int file = shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
    if (file < 0) return nullptr;
    void *memory = MAP_FAILED;
    if (ftruncate(file, sizeof(Shared)) == 0) memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (memory == MAP_FAILED) return nullptr;
    Shared *shared = static_cast<Shared *>(memory);
    make_lock(shared, ranks);
    if (shared->ranks == ranks) return new Room(name, shared);
    munmap(memory, sizeof(Shared));
    return nullptr;
}

// Those that still use it keep it.
Room::~Room() {
    munmap(shared_, sizeof(Shared));
    shm_unlink(name_.c_str());
}

bool Room::until(const std::atomic<bool> &aborted, const std::function<bool(Shared &)> &step) {
    pthread_mutex_lock(&shared_->lock);
    bool done = false;
    while (!aborted.load() && !(done = step(*shared_))) {
        timespec latest = {};
        clock_gettime(CLOCK_REALTIME, &latest);
        latest.tv_nsec += kNap;
        if (latest.tv_nsec >= 1'000'000'000) {
            latest.tv_nsec -= 1'000'000'000;
            ++latest.tv_sec;
        }
        pthread_cond_timedwait(&shared_->changed, &shared_->lock, &latest);
    }
    pthread_cond_broadcast(&shared_->changed);
    pthread_mutex_unlock(&shared_->lock);
    return done;
}

std::size_t write(Ring &ring, const unsigned char *data, std::size_t bytes) {
    const std::size_t at = ring.written % kRingBytes, room = kRingBytes - static_cast<std::size_t>(ring.written - ring.read);
    const std::size_t count = std::min({bytes, room, kRingBytes - at});
    std::memcpy(ring.bytes + at, data, count);
    ring.written += count;
    return count;
}

std::size_t read(Ring &ring, unsigned char *data, std::size_t bytes) {
    const std::size_t at = ring.read % kRingBytes, there = static_cast<std::size_t>(ring.written - ring.read);
    const std::size_t count = std::min({bytes, there, kRingBytes - at});
    std::memcpy(data, ring.bytes + at, count);
    ring.read += count;
    return count;
}

}  // namespace attile::test::nccl
