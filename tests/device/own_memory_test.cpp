// SPDX-License-Identifier: Apache-2.0
#include "host/own_memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace attile::test {
namespace {

using gpu::OwnMemory;

const char *at(uintptr_t address) { return reinterpret_cast<const char *>(address); }

TEST(OwnMemory, KnowsWhatIsInsideUntilItGoes) {
    OwnMemory own;
    EXPECT_FALSE(own.has(nullptr));
    EXPECT_FALSE(own.has(at(0x1000)));
    own.add(at(0x1000), 0x100);
    own.add(at(0x3000), 1);
    for (const uintptr_t inside : {0x1000, 0x10ff, 0x3000}) EXPECT_TRUE(own.has(at(inside))) << inside;
    for (const uintptr_t outside : {0x0, 0xfff, 0x1100, 0x2fff, 0x3001}) EXPECT_FALSE(own.has(at(outside))) << outside;
    own.remove(at(0x1001));  // Not where it begins.
    EXPECT_TRUE(own.has(at(0x1000)));
    own.remove(at(0x1000));
    EXPECT_FALSE(own.has(at(0x1000)));
    EXPECT_TRUE(own.has(at(0x3000)));
    own.add(at(0x1000), 0x10);
    EXPECT_TRUE(own.has(at(0x100f)));
    EXPECT_FALSE(own.has(at(0x1010)));
}

TEST(OwnMemory, ForgetsWhatItHasNoRoomFor) {
    OwnMemory own;
    for (uintptr_t i = 1; i <= OwnMemory::kMost + 5; ++i) own.add(at(i << 12), 0x1000);
    for (uintptr_t i = 1; i <= OwnMemory::kMost + 5; ++i) EXPECT_EQ(own.has(at(i << 12)), i <= OwnMemory::kMost) << i;
    own.remove(at((OwnMemory::kMost + 1) << 12));
    own.remove(at(5 << 12));
    own.add(at(uintptr_t{1} << 40), 1);
    EXPECT_TRUE(own.has(at(uintptr_t{1} << 40)));
}

// Places go from one memory to another: what lives is always known, and what never lived is not.
TEST(OwnMemory, ThreadsAddAndRemoveTheirOwn) {
    OwnMemory own;
    own.add(at(uintptr_t{1} << 40), 0x1000);
    std::atomic<int> wrong{0};
    const auto act = [&](uintptr_t thread) {
        for (uintptr_t i = 1; i < 5000; ++i) {
            const char *const mine = at((thread << 32) + (i % 50 << 16));
            own.add(mine, 0x8000);
            if (!own.has(mine + 0x7fff) || own.has(mine + 0x8000) || !own.has(at((uintptr_t{1} << 40) + i % 0x1000))) ++wrong;
            own.remove(mine);
            if (own.has(mine)) ++wrong;
        }
    };
    std::vector<std::thread> threads;
    for (uintptr_t thread = 1; thread <= 4; ++thread) threads.emplace_back(act, thread);
    for (std::thread &thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace attile::test
