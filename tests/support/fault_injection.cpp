// SPDX-License-Identifier: Apache-2.0
// Interposers: a program's own definition of a function goes before the C library's for everything loaded into it. What is real is looked
// up behind it, so that a sanitizer's allocator stays in its place.
#include "fault_injection.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <new>

namespace {

// Constant-initialised: allocations come before any constructor has run.
std::atomic<uint32_t> kinds{0};
std::atomic<int64_t> counted{0}, first_to_fail{0}, last_to_fail{0}, blocks{0};
std::atomic<pthread_t> only_thread{};

// What is asked for while dlsym() looks up the real allocator. Never given back.
alignas(16) char arena[1 << 16];
std::atomic<size_t> arena_used{0};

bool in_arena(const void *memory) { return memory >= arena && memory < arena + sizeof arena; }

void *from_arena(size_t bytes) {
    const size_t at = arena_used.fetch_add((bytes + 15) / 16 * 16);
    return at + bytes <= sizeof arena ? arena + at : nullptr;
}

// The real function of that name. `looking` is set while it is looked for.
std::atomic<int> looking{0};
void *real(std::atomic<void *> *known, const char *name) {
    void *found = known->load(std::memory_order_acquire);
    if (found != nullptr) return found;
    looking.fetch_add(1);
    found = dlsym(RTLD_NEXT, name);
    looking.fetch_sub(1);
    known->store(found, std::memory_order_release);
    return found;
}
#define ATTILE_REAL(name)                                    \
    reinterpret_cast<decltype(&::name)>([] {                 \
        static constinit std::atomic<void *> known{nullptr}; \
        return real(&known, #name);                          \
    }())

void *counted_block(void *memory) {
    if (memory != nullptr) blocks.fetch_add(1, std::memory_order_relaxed);
    return memory;
}

bool out_of_memory() {
    if (attile_fault_hit(ATTILE_FAULT_MEMORY) == 0) return false;
    errno = ENOMEM;
    return true;
}

bool broken_file() {
    if (attile_fault_hit(ATTILE_FAULT_FILE) == 0) return false;
    errno = EIO;
    return true;
}

}  // namespace

extern "C" {

void attile_fault_arm(uint32_t wanted, int64_t first, int64_t last) {
    kinds.store(0);
    counted.store(0);
    first_to_fail.store(first);
    last_to_fail.store(last);
    only_thread.store(pthread_self());
    kinds.store(wanted);
}

int64_t attile_fault_disarm(void) {
    kinds.store(0);
    return counted.load();
}

int attile_fault_hit(uint32_t kind) {
    const uint32_t wanted = kinds.load(std::memory_order_relaxed);
    if ((wanted & kind) == 0) return 0;
    if ((wanted & ATTILE_FAULT_THIS_THREAD) != 0 && pthread_equal(only_thread.load(), pthread_self()) == 0) return 0;
    const int64_t number = counted.fetch_add(1) + 1;
    return number >= first_to_fail.load() && number <= last_to_fail.load() && first_to_fail.load() > 0 ? 1 : 0;
}

int64_t attile_fault_blocks(void) { return blocks.load(); }

// Memory.

void *malloc(size_t bytes) {
    if (looking.load() != 0) return from_arena(bytes);
    return out_of_memory() ? nullptr : counted_block(ATTILE_REAL(malloc)(bytes));
}

void *calloc(size_t count, size_t bytes) {
    size_t all = 0;
    if (looking.load() != 0) return __builtin_mul_overflow(count, bytes, &all) ? nullptr : from_arena(all);
    return out_of_memory() ? nullptr : counted_block(ATTILE_REAL(calloc)(count, bytes));
}

void *realloc(void *memory, size_t bytes) {
    if (in_arena(memory)) {
        void *made = malloc(bytes);
        const size_t behind = static_cast<size_t>(arena + sizeof arena - static_cast<char *>(memory));
        if (made != nullptr) std::memcpy(made, memory, bytes < behind ? bytes : behind);
        return made;
    }
    if (bytes != 0 && out_of_memory()) return nullptr;
    void *made = ATTILE_REAL(realloc)(memory, bytes);
    if (memory == nullptr) return counted_block(made);
    if (bytes == 0 && made == nullptr) blocks.fetch_sub(1, std::memory_order_relaxed);
    return made;
}

void free(void *memory) {
    if (memory == nullptr || in_arena(memory) || looking.load() != 0) return;  // dlsym() itself frees its last error
    blocks.fetch_sub(1, std::memory_order_relaxed);
    ATTILE_REAL(free)(memory);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes) {
    if (out_of_memory()) return ENOMEM;
    const int status = ATTILE_REAL(posix_memalign)(memory, alignment, bytes);
    if (status == 0) counted_block(*memory);
    return status;
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    return out_of_memory() ? nullptr : counted_block(ATTILE_REAL(aligned_alloc)(alignment, bytes));
}

void *memalign(size_t alignment, size_t bytes);
void *memalign(size_t alignment, size_t bytes) {
    return out_of_memory() ? nullptr : counted_block(ATTILE_REAL(memalign)(alignment, bytes));
}

void *mmap(void *where, size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
    if (attile_fault_hit(ATTILE_FAULT_MAPPING) != 0) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return ATTILE_REAL(mmap)(where, bytes, protection, flags, file, offset);
}

// Threads.

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument) noexcept {
    if (attile_fault_hit(ATTILE_FAULT_THREAD) != 0) return EAGAIN;
    return ATTILE_REAL(pthread_create)(thread, attributes, body, argument);
}

// Files.

static unsigned mode_of(int flags, va_list arguments) { return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, unsigned) : 0; }

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const unsigned mode = mode_of(flags, arguments);
    va_end(arguments);
    return broken_file() ? -1 : ATTILE_REAL(open)(path, flags, mode);
}

int openat(int directory, const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const unsigned mode = mode_of(flags, arguments);
    va_end(arguments);
    return broken_file() ? -1 : ATTILE_REAL(openat)(directory, path, flags, mode);
}

ssize_t read(int file, void *memory, size_t bytes) { return broken_file() ? -1 : ATTILE_REAL(read)(file, memory, bytes); }

ssize_t pread(int file, void *memory, size_t bytes, off_t at) { return broken_file() ? -1 : ATTILE_REAL(pread)(file, memory, bytes, at); }

ssize_t write(int file, const void *memory, size_t bytes) { return broken_file() ? -1 : ATTILE_REAL(write)(file, memory, bytes); }

int stat(const char *path, struct stat *found) noexcept { return broken_file() ? -1 : ATTILE_REAL(stat)(path, found); }

int lstat(const char *path, struct stat *found) noexcept { return broken_file() ? -1 : ATTILE_REAL(lstat)(path, found); }

int fstat(int file, struct stat *found) noexcept { return broken_file() ? -1 : ATTILE_REAL(fstat)(file, found); }

FILE *fopen(const char *path, const char *mode) { return broken_file() ? nullptr : ATTILE_REAL(fopen)(path, mode); }

void *dlopen(const char *path, int mode) noexcept { return broken_file() ? nullptr : ATTILE_REAL(dlopen)(path, mode); }

}  // extern "C"

// A sanitizer's operator new does not come by malloc(); these do. All forms that the project uses.
void *operator new(size_t bytes) {
    void *made = malloc(bytes);
    if (made == nullptr) throw std::bad_alloc();
    return made;
}
void *operator new[](size_t bytes) { return operator new(bytes); }
void *operator new(size_t bytes, const std::nothrow_t &) noexcept { return malloc(bytes); }
void *operator new[](size_t bytes, const std::nothrow_t &) noexcept { return malloc(bytes); }
void *operator new(size_t bytes, std::align_val_t alignment, const std::nothrow_t &) noexcept {
    return aligned_alloc(static_cast<size_t>(alignment),
                         (bytes + static_cast<size_t>(alignment) - 1) & ~(static_cast<size_t>(alignment) - 1));
}
void *operator new(size_t bytes, std::align_val_t alignment) {
    void *made = operator new(bytes, alignment, std::nothrow);
    if (made == nullptr) throw std::bad_alloc();
    return made;
}
void *operator new[](size_t bytes, std::align_val_t alignment) { return operator new(bytes, alignment); }
void operator delete(void *memory, const std::nothrow_t &) noexcept { free(memory); }
void operator delete[](void *memory, const std::nothrow_t &) noexcept { free(memory); }
void operator delete(void *memory) noexcept { free(memory); }
void operator delete(void *memory, size_t) noexcept { free(memory); }
void operator delete(void *memory, std::align_val_t, const std::nothrow_t &) noexcept { free(memory); }
void operator delete(void *memory, std::align_val_t) noexcept { free(memory); }
void operator delete(void *memory, size_t, std::align_val_t) noexcept { free(memory); }
void operator delete[](void *memory) noexcept { free(memory); }
void operator delete[](void *memory, size_t) noexcept { free(memory); }
void operator delete[](void *memory, std::align_val_t) noexcept { free(memory); }
void operator delete[](void *memory, size_t, std::align_val_t) noexcept { free(memory); }
