// SPDX-License-Identifier: Apache-2.0
// Whether a forked child finds zeros where its parent asked for them (MADV_WIPEONFORK). qemu-user 7.2 takes the request and does nothing:
// the cpu backend's team of threads is then one that a child does not have. A kernel that refuses the request is no such case.
#ifndef ATTILE_TESTS_WIPES_ON_FORK_H
#define ATTILE_TESTS_WIPES_ON_FORK_H

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace attile::test {

inline bool keeps_what_it_is_to_wipe() {
    const auto bytes = static_cast<unsigned long>(sysconf(_SC_PAGESIZE));
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    volatile char *first = static_cast<char *>(memory);
    *first = 1;
    int status = 0;
    const pid_t child = madvise(memory, bytes, MADV_WIPEONFORK) == 0 ? fork() : -1;
    if (child == 0) _exit(*first);
    const bool kept = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 1;
    munmap(memory, bytes);
    return kept;
}

constexpr char kKeeps[] = "MADV_WIPEONFORK succeeds and does nothing here, as in qemu-user 7.2: a forked child calculates without threads";

}  // namespace attile::test

#endif
