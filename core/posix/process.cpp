// SPDX-License-Identifier: Apache-2.0
// A page that the kernel hands to a forked child filled with zeros (MADV_WIPEONFORK): one load tells whether this process is still the one
// that wrote to it, where getpid() would cost a system call; and it knows of children that no handler was called for.
#include "process.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

namespace attile::core {
namespace {

using Generation = std::atomic<uint64_t>;

size_t page_bytes() {
    const long page = sysconf(_SC_PAGESIZE);
    return page > 0 ? static_cast<size_t>(page) : 4096;
}

// NULL on a kernel without MADV_WIPEONFORK. Mapped once and kept until the process ends.
Generation *make_wiped_page() {
    const size_t bytes = page_bytes();
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    if (madvise(memory, bytes, MADV_WIPEONFORK) != 0) {
        munmap(memory, bytes);
        return nullptr;
    }
    return static_cast<Generation *>(memory);  // zeroed memory is a Generation of 0
}

// Outside the page, so that a child goes on counting where its parent was.
constinit Generation last_generation{0};

// What known_page points to where there is none. A static variable with a guard would not do: a thread of the parent may have held it.
constinit Generation no_page{0};
constinit std::atomic<Generation *> known_page{nullptr};

Generation *find_page() {
    Generation *made = make_wiped_page(), *known = nullptr;
    Generation *const mine = made != nullptr ? made : &no_page;
    if (known_page.compare_exchange_strong(known, mine, std::memory_order_acq_rel)) return mine;
    if (made != nullptr) munmap(made, page_bytes());
    return known;
}

}  // namespace

uint64_t process_generation() {
    Generation *page = known_page.load(std::memory_order_acquire);
    if (page == nullptr) page = find_page();
    if (page == &no_page) return static_cast<uint64_t>(getpid());
    uint64_t generation = page->load(std::memory_order_relaxed);
    if (generation != 0) return generation;
    // First call in this process. The counter moves before the page does, so a fork in between cannot give a number out twice.
    const uint64_t next = last_generation.fetch_add(1, std::memory_order_relaxed) + 1;
    return page->compare_exchange_strong(generation, next, std::memory_order_relaxed) ? next : generation;
}

void forget_generation() {
    Generation *page = known_page.load(std::memory_order_acquire);
    if (page != nullptr && page != &no_page) page->store(0, std::memory_order_relaxed);
}

bool call_at_fork(void (*before)(), void (*in_parent)(), void (*in_child)()) { return pthread_atfork(before, in_parent, in_child) == 0; }

}  // namespace attile::core
