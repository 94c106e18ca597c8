// SPDX-License-Identifier: Apache-2.0
// What tests ask of the operating system, with one meaning on all.
#ifndef ATTILE_TESTS_PORTABLE_H
#define ATTILE_TESTS_PORTABLE_H

#include <cstddef>
#include <cstdlib>

#ifdef _WIN32
#include <windows.h>

#include <malloc.h>
#else
#include <sched.h>
#include <sys/mman.h>
#endif

namespace attile::test {

#ifdef _WIN32

inline void set_variable(const char *name, const char *value) { _putenv_s(name, value); }
inline void unset_variable(const char *name) { _putenv_s(name, ""); }

inline void *aligned_block(size_t alignment, size_t bytes) { return _aligned_malloc(bytes, alignment); }
inline void free_aligned_block(void *block) { _aligned_free(block); }

// Address space whose pages exist where they are written; NULL if there is none.
inline void *reserve_space(size_t bytes) { return VirtualAlloc(nullptr, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE); }
inline void release_space(void *space, size_t) { VirtualFree(space, 0, MEM_RELEASE); }

// While it lives the process has one of the processors that it had.
class OneProcessor {
  public:
    OneProcessor() {
        DWORD_PTR all = 0;
        GetProcessAffinityMask(GetCurrentProcess(), &before_, &all);
        done_ = SetProcessAffinityMask(GetCurrentProcess(), before_ & (~before_ + 1)) != 0;
    }
    ~OneProcessor() { SetProcessAffinityMask(GetCurrentProcess(), before_); }
    OneProcessor(const OneProcessor &) = delete;
    OneProcessor &operator=(const OneProcessor &) = delete;
    bool done() const { return done_; }

  private:
    DWORD_PTR before_ = 0;
    bool done_ = false;
};

#else

inline void set_variable(const char *name, const char *value) { setenv(name, value, 1); }
inline void unset_variable(const char *name) { unsetenv(name); }

inline void *aligned_block(size_t alignment, size_t bytes) {
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}
inline void free_aligned_block(void *block) { std::free(block); }

inline void *reserve_space(size_t bytes) {
    void *space = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return space == MAP_FAILED ? nullptr : space;
}
inline void release_space(void *space, size_t bytes) { munmap(space, bytes); }

class OneProcessor {
  public:
    OneProcessor() {
        done_ = sched_getaffinity(0, sizeof before_, &before_) == 0;
        cpu_set_t one;
        CPU_ZERO(&one);
        for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i) {
            if (CPU_ISSET(i, &before_)) CPU_SET(i, &one);
        }
        done_ = done_ && sched_setaffinity(0, sizeof one, &one) == 0;
    }
    ~OneProcessor() { sched_setaffinity(0, sizeof before_, &before_); }
    OneProcessor(const OneProcessor &) = delete;
    OneProcessor &operator=(const OneProcessor &) = delete;
    bool done() const { return done_; }

  private:
    cpu_set_t before_;
    bool done_ = false;
};

#endif

}  // namespace attile::test

#endif
