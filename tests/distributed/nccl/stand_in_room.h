// SPDX-License-Identifier: Apache-2.0
// Where ranks of the stand-in for NCCL meet: memory that threads and processes of one machine share, with a ring of bytes from each rank to
// each.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace attile::test::nccl {

constexpr int kMostRanks = 8, kMostSplits = 64;
constexpr std::size_t kRingBytes = 16384;

struct Ring {
    std::uint64_t written, read;  // bytes so far
    unsigned char bytes[kRingBytes];
};

// Begins as zeros.
struct Shared {
    std::atomic<std::uint32_t> ready;  // 0: nobody has made the lock, 1: somebody does, 2: it is there
    pthread_mutex_t lock;
    pthread_cond_t changed;
    std::int32_t ranks, arrived;
    struct Split {
        std::int32_t arrived, colours[kMostRanks], keys[kMostRanks];
    } splits[kMostSplits];
    Ring rings[kMostRanks][kMostRanks];
};

class Room {
  public:
    // Of that name, made by whoever comes first. NULL where the system refuses or the numbers of ranks differ.
    static Room *open(const std::string &name, int ranks);
    ~Room();
    Room(const Room &) = delete;
    Room &operator=(const Room &) = delete;

    // Under the lock: runs `step` until it returns true, again when something has changed, or `aborted` is set: then false.
    bool until(const std::atomic<bool> &aborted, const std::function<bool(Shared &)> &step);
    const std::string &name() const { return name_; }

  private:
    Room(std::string name, Shared *shared) : name_(std::move(name)), shared_(shared) {}

    const std::string name_;
    Shared *const shared_;
};

// Part of a message between memory and a ring, under the lock: how many bytes went.
std::size_t write(Ring &ring, const unsigned char *data, std::size_t bytes);
std::size_t read(Ring &ring, unsigned char *data, std::size_t bytes);

}  // namespace attile::test::nccl
