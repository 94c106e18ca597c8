// SPDX-License-Identifier: Apache-2.0
// Threads by POSIX, and what sleeps and wakes them by Linux.
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <initializer_list>

#include "system.h"

namespace attile::cpu {

void wait_for_change(Word *word, uint32_t seen, int64_t nanoseconds) {
    const timespec limit{0, static_cast<long>(nanoseconds)};
    syscall(SYS_futex, reinterpret_cast<uint32_t *>(word), FUTEX_WAIT | FUTEX_PRIVATE_FLAG, seen, nanoseconds > 0 ? &limit : nullptr,
            nullptr, 0);
}

void wake(Word *word, int count) {
    syscall(SYS_futex, reinterpret_cast<uint32_t *>(word), FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, nullptr, nullptr, 0);
}

int64_t now_nanoseconds() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return int64_t{1000000000} * time.tv_sec + time.tv_nsec;
}

double thread_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

uint32_t current_processor() { return static_cast<uint32_t>(sched_getcpu()); }

bool start_thread(void *(*body)(void *), void *argument, size_t stack_bytes) {
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) return false;
    pthread_t thread;
    // Faults of its own go where the program wants them; all else is not for a thread that the program does not know of.
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPROF}) sigdelset(&blocked, fault);
    bool made = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0 &&
                pthread_attr_setstacksize(&attributes, stack_bytes) == 0 && pthread_sigmask(SIG_SETMASK, &blocked, &before) == 0;
    if (made) {
        made = pthread_create(&thread, &attributes, body, argument) == 0;
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
    pthread_attr_destroy(&attributes);
    return made;
}

void *make_wiped(size_t bytes, bool *wiped) {
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    *wiped = madvise(memory, bytes, MADV_WIPEONFORK) == 0;
    return memory;
}

void free_wiped(void *memory, size_t bytes) { munmap(memory, bytes); }

uint32_t process_number() { return static_cast<uint32_t>(getpid()); }

// The type as well: glibc before 2.41 asks for it alone when the signal arrives that cancels a thread at any instruction, which may have
// been sent before the state changed.
int hold_cancellation() {
    int type = PTHREAD_CANCEL_DEFERRED, state = PTHREAD_CANCEL_ENABLE;
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    return (type == PTHREAD_CANCEL_ASYNCHRONOUS ? 2 : 0) | (state == PTHREAD_CANCEL_DISABLE ? 1 : 0);
}

void release_cancellation(int before) {
    pthread_setcancelstate((before & 1) != 0 ? PTHREAD_CANCEL_DISABLE : PTHREAD_CANCEL_ENABLE, nullptr);
    pthread_setcanceltype((before & 2) != 0 ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED, nullptr);
}

}  // namespace attile::cpu
