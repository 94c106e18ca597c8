// SPDX-License-Identifier: Apache-2.0
// The tests' own tool: it fails the call it is told to fail and no other, and counts.
#include "fault_injection.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <thread>

namespace {

// Not the compiler's to leave out.
void *volatile kept = nullptr;

bool allocates() {
    kept = std::malloc(100);
    const bool done = kept != nullptr;
    std::free(kept);
    return done;
}

TEST(FaultInjection, FailsTheCallsItIsToldTo) {
    attile_fault_arm(ATTILE_FAULT_MEMORY, 2, 3);
    const bool seen[4] = {allocates(), allocates(), allocates(), allocates()};
    EXPECT_EQ(attile_fault_disarm(), 4);
    EXPECT_TRUE(seen[0] && !seen[1] && !seen[2] && seen[3]);
    EXPECT_TRUE(allocates());
    attile_fault_arm(ATTILE_FAULT_MEMORY, 0, 0);
    const bool counted = allocates();
    EXPECT_EQ(attile_fault_disarm(), 1);
    EXPECT_TRUE(counted);
}

TEST(FaultInjection, KnowsEveryAllocatorAndTheBlocksLeft) {
    void *made[6] = {};
    const int64_t before = attile_fault_blocks();
    attile_fault_arm(ATTILE_FAULT_MEMORY, 0, 0);
    made[0] = std::malloc(10);
    made[1] = std::calloc(2, 10);
    made[2] = std::realloc(nullptr, 10);
    made[2] = std::realloc(made[2], 100);
    const int status = posix_memalign(&made[3], 64, 10);
    made[4] = std::aligned_alloc(64, 64);
    made[5] = new char[10];
    EXPECT_EQ(attile_fault_disarm(), 7);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(attile_fault_blocks(), before + 6);
    delete[] static_cast<char *>(made[5]);
    for (int i = 0; i < 5; ++i) std::free(made[i]);
    EXPECT_EQ(attile_fault_blocks(), before);
}

TEST(FaultInjection, KnowsMappingsThreadsFilesAndCalls) {
    attile_fault_arm(ATTILE_FAULT_MAPPING, 1, 1);
    void *const mapped = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    attile_fault_arm(ATTILE_FAULT_THREAD, 1, 1);
    pthread_t thread;
    const int created = pthread_create(
        &thread, nullptr, [](void *) -> void * { return nullptr; }, nullptr);
    attile_fault_arm(ATTILE_FAULT_FILE, 1, 4);
    struct stat found;
    const int opened = open("/dev/null", O_RDONLY), looked = stat("/dev/null", &found);
    void *const library = dlopen(nullptr, RTLD_NOW);
    char byte = 0;
    const ssize_t got = pread(0, &byte, 1, 0);
    EXPECT_EQ(attile_fault_disarm(), 4);
    attile_fault_arm(ATTILE_FAULT_CALL, 1, 1);
    const int first = attile_fault_hit(ATTILE_FAULT_CALL), second = attile_fault_hit(ATTILE_FAULT_CALL),
              other = attile_fault_hit(ATTILE_FAULT_FILE);
    EXPECT_EQ(attile_fault_disarm(), 2);
    EXPECT_TRUE(mapped == MAP_FAILED && created == EAGAIN && opened == -1 && looked == -1 && library == nullptr && got == -1);
    EXPECT_TRUE(first == 1 && second == 0 && other == 0);
}

TEST(FaultInjection, MayLeaveOtherThreadsAlone) {
    bool there = false, here = true;
    std::thread other([&] { attile_fault_arm(ATTILE_FAULT_MEMORY | ATTILE_FAULT_THIS_THREAD, 1, INT64_MAX), here = allocates(); });
    other.join();
    there = allocates();
    attile_fault_disarm();
    EXPECT_TRUE(there);
    EXPECT_FALSE(here);
}

}  // namespace
