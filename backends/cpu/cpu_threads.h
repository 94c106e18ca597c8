// SPDX-License-Identifier: Apache-2.0
// Threads: one OpenMP parallel region a call, everything inside it by the pieces below.
//
// OpenMP supplies the threads, so that a program which uses OpenMP itself has one set of them and its variables hold; handing out work and
// waiting inside a region are done with atomics, which ThreadSanitizer understands whatever OpenMP runtime is linked.
// A region may get fewer threads than asked for (nested use, OMP_THREAD_LIMIT): code inside must look at Team::size.
#ifndef ATTILE_CPU_THREADS_H
#define ATTILE_CPU_THREADS_H

#include <atomic>
#include <cstdint>
#include <type_traits>

namespace attile::cpu {

// All threads of a region pass wait() or none does.
class Barrier {
  public:
    void wait(int size);

  private:
    std::atomic<int> arrived_{0};
    std::atomic<uint32_t> phase_{0};
};

// Hands out 0, 1, 2, ... to whoever asks next.
class Counter {
  public:
    explicit Counter(int64_t first = 0) : next_(first) {}
    int64_t next() { return next_.fetch_add(1, std::memory_order_relaxed); }

  private:
    std::atomic<int64_t> next_;
};

struct Team {
    int rank;
    int size;
    Barrier *barrier;
    void wait() const {
        if (size > 1) barrier->wait(size);
    }
};

// Threads a new context uses when its options do not say: OpenMP's own answer.
int default_threads();

void run_team(int threads, void (*body)(void *argument, const Team &team), void *argument);

// body(team) on up to `threads` threads; returns when all are done. body must not throw.
template <class Body>
void parallel(int64_t threads, Body &&body) {
    using Plain = std::remove_reference_t<Body>;
    if (threads <= 1) {
        body(Team{0, 1, nullptr});
        return;
    }
    run_team(
        static_cast<int>(threads), [](void *argument, const Team &team) { (*static_cast<Plain *>(argument))(team); }, &body);
}

// body(index) for every index below `count`, in an unspecified order and division.
template <class Body>
void parallel_for(int64_t threads, int64_t count, Body &&body) {
    if (threads > count) threads = count;
    if (threads <= 1) {
        for (int64_t i = 0; i < count; ++i) body(i, 0);
        return;
    }
    Counter counter;
    parallel(threads, [&](const Team &team) {
        for (int64_t i = counter.next(); i < count; i = counter.next()) body(i, team.rank);
    });
}

}  // namespace attile::cpu

#endif  // ATTILE_CPU_THREADS_H
