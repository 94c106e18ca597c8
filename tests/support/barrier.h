// SPDX-License-Identifier: Apache-2.0
// Where threads of a test wait for one another. Not std::barrier: on Windows, which has no futexes, the wait of GCC 12.2 compares the value
// before it takes the lock under which it sleeps. A signal between the two is lost, and the thread sleeps for ever.
#ifndef ATTILE_TESTS_BARRIER_H
#define ATTILE_TESTS_BARRIER_H

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace attile::test {

class Barrier {
  public:
    explicit Barrier(int threads) : threads_(threads) {}
    Barrier(const Barrier &) = delete;
    Barrier &operator=(const Barrier &) = delete;

    // Returns when all threads have called it. It may then be called again.
    void arrive_and_wait() {
        std::unique_lock<std::mutex> hold(lock_);
        if (++arrived_ == threads_) {
            arrived_ = 0;
            ++round_;
            complete_.notify_all();
            return;
        }
        complete_.wait(hold, [this, round = round_] { return round_ != round; });
    }

  private:
    const int threads_;
    std::mutex lock_;
    std::condition_variable complete_;
    int arrived_ = 0;
    std::uint64_t round_ = 0;
};

}  // namespace attile::test

#endif
