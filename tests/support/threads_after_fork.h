// SPDX-License-Identifier: Apache-2.0
// Whether a child that was forked beside other threads can start threads. qemu-user 7.2 ends such a child: "cpu == current_cpu" does not
// hold.
#ifndef ATTILE_TESTS_THREADS_AFTER_FORK_H
#define ATTILE_TESTS_THREADS_AFTER_FORK_H

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace attile::test {

inline bool threads_start_after_fork() {
    std::atomic<bool> done = false;
    std::thread beside([&done] {
        while (!done) std::this_thread::yield();
    });
    const pid_t child = fork();
    if (child == 0) {
        dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);  // The emulator's last words.
        for (int i = 0; i < 8; ++i) std::thread([] {}).join();
        _exit(0);
    }
    int status = 1;
    const bool ended = child > 0 && waitpid(child, &status, 0) == child;
    done = true;
    beside.join();
    return ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace attile::test

#endif
