// SPDX-License-Identifier: Apache-2.0
// The parallel region and the barrier.
#include "cpu_threads.h"

#include <omp.h>
#include <sched.h>

#if defined(__SANITIZE_THREAD__)
#define ATTILE_CPU_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ATTILE_CPU_TSAN 1
#endif
#endif

#if defined(ATTILE_CPU_TSAN)
// OpenMP's runtime is not instrumented: the start and end of a region are told to ThreadSanitizer by hand, and the function that the
// compiler splits off around the region, which reads the shared variables before that can happen, is left out of its watch.
extern "C" void __tsan_acquire(void *);
extern "C" void __tsan_release(void *);
#define ATTILE_CPU_REGION __attribute__((no_sanitize("thread"), noinline))
#else
#define ATTILE_CPU_REGION
#endif

namespace attile::cpu {
namespace {

void acquire([[maybe_unused]] void *mark) {
#if defined(ATTILE_CPU_TSAN)
    __tsan_acquire(mark);
#endif
}

void release([[maybe_unused]] void *mark) {
#if defined(ATTILE_CPU_TSAN)
    __tsan_release(mark);
#endif
}

void pause_briefly() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

}  // namespace

void Barrier::wait(int size) {
    const uint32_t phase = phase_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size) {
        arrived_.store(0, std::memory_order_relaxed);
        phase_.store(phase + 1, std::memory_order_release);
        return;
    }
    // A short wait is met by spinning; with more threads than processors the one waited for needs ours.
    for (int spins = 0; phase_.load(std::memory_order_acquire) == phase; ++spins) {
        if (spins < 4000) {
            pause_briefly();
        } else {
            sched_yield();
        }
    }
}

int default_threads() {
    const int threads = omp_get_max_threads();
    return threads < 1 ? 1 : threads;
}

ATTILE_CPU_REGION void run_team(int threads, void (*body)(void *argument, const Team &team), void *argument) {
    Barrier barrier;
    release(&barrier);
#pragma omp parallel num_threads(threads) default(none) shared(barrier, body, argument)
    {
        acquire(&barrier);
        body(argument, Team{omp_get_thread_num(), omp_get_num_threads(), &barrier});
        release(&barrier);
    }
    acquire(&barrier);
}

}  // namespace attile::cpu
