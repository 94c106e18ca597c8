// SPDX-License-Identifier: Apache-2.0
// Workspace that a context keeps for its streams: whose it is and when, how it grows, what it is bound by, and what a failure leaves.
#include "host/kept_workspaces.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "memory_device.h"

namespace attile::test {
namespace {

using gpu::KeptWorkspaces;
constexpr int64_t kAll = int64_t{1} << 30;
constexpr int kPlaces = KeptWorkspaces::kSettled + KeptWorkspaces::kRoving;

class PoolDevice : public MemoryDevice {
  public:
    using MemoryDevice::MemoryDevice;
    int32_t pool_alloc(int64_t bytes, gpu::Stream stream, void **pointer) override {
        const std::lock_guard<std::mutex> guard(lock);
        ++allocations;
        return MemoryDevice::pool_alloc(bytes, stream, pointer);
    }
    int32_t pool_free(void *pointer, gpu::Stream stream) override {
        const std::lock_guard<std::mutex> guard(lock);
        return MemoryDevice::pool_free(pointer, stream);
    }
    int32_t called(const char *name) override { return failing == name ? ATTILE_ERROR_DEVICE_RUNTIME : ATTILE_OK; }
    std::mutex lock;
    int allocations = 0;
    std::string failing;
};

class KeptWorkspacesTest : public testing::Test {
  protected:
    // Of a call that is over at once; null: it got none.
    void *use(KeptWorkspaces &kept, uint64_t number, int64_t bytes) {
        KeptWorkspaces::Place *place = nullptr;
        EXPECT_EQ(kept.take(bytes, number, nullptr, &place), ATTILE_OK);
        if (place == nullptr) return nullptr;
        void *const memory = place->memory();
        kept.give(place, nullptr);
        return memory;
    }
    PoolDevice device{kAll};
};

TEST_F(KeptWorkspacesTest, TheNextCallOfAStreamTakesNothing) {
    KeptWorkspaces kept(device, kAll);
    void *const first = use(kept, 1, 100000);
    ASSERT_NE(first, nullptr);
    for (const int64_t bytes : {100000, 1, 131072}) EXPECT_EQ(use(kept, 1, bytes), first);
    EXPECT_EQ(device.allocations, 1);
    void *const other = use(kept, 2, 100000);  // Of the same handle, perhaps, in a stream's place that is gone.
    EXPECT_NE(other, nullptr);
    EXPECT_NE(other, first);
    EXPECT_EQ(use(kept, 0, 1), nullptr) << "nobody knows which stream it is";
}

TEST_F(KeptWorkspacesTest, GrowsAndGivesBackWhatWasBefore) {
    {
        KeptWorkspaces kept(device, kAll);
        use(kept, 1, 1000);
        EXPECT_NE(use(kept, 1, 1 << 20), nullptr);
        EXPECT_EQ(device.blocks(), 1U);
        EXPECT_EQ(use(kept, 1, KeptWorkspaces::kMostBytes + 1), nullptr);
        EXPECT_NE(use(kept, 1, KeptWorkspaces::kMostBytes), nullptr);
        EXPECT_EQ(device.blocks(), 1U);
        EXPECT_EQ(device.allocations, 3);
        for (uint64_t number = 2; number <= kPlaces; ++number) use(kept, number, 1);
        EXPECT_EQ(device.events(), KeptWorkspaces::kRoving);
    }
    EXPECT_EQ(device.blocks(), 0U);
    EXPECT_EQ(device.events(), 0);
}

TEST_F(KeptWorkspacesTest, IsOneCallsAtATime) {
    KeptWorkspaces kept(device, kAll);
    KeptWorkspaces::Place *first = nullptr, *second = nullptr, *other = nullptr;
    ASSERT_EQ(kept.take(1, 1, nullptr, &first), ATTILE_OK);
    ASSERT_NE(first, nullptr);
    ASSERT_EQ(kept.take(1, 1, nullptr, &second), ATTILE_OK);
    EXPECT_EQ(second, nullptr);
    ASSERT_EQ(kept.take(1, 2, nullptr, &other), ATTILE_OK);
    ASSERT_NE(other, nullptr);
    kept.forget(1, nullptr);
    EXPECT_EQ(device.blocks(), 2U) << "is in use";
    kept.give(first, nullptr);
    kept.give(other, nullptr);
    kept.forget(1, nullptr);
    EXPECT_EQ(device.blocks(), 1U);
}

TEST_F(KeptWorkspacesTest, KeepsNoMoreThanItMay) {
    KeptWorkspaces kept(device, 5 << 19);
    EXPECT_NE(use(kept, 1, 1 << 20), nullptr);
    EXPECT_NE(use(kept, 2, (1 << 20) + 1), nullptr) << "where there is no room to round up, less";
    EXPECT_EQ(device.peak(), 5 << 19);
    EXPECT_EQ(use(kept, 3, 1), nullptr);
    kept.forget(2, nullptr);
    EXPECT_EQ(use(kept, 3, 1 << 21), nullptr) << "more than there is room for";
    kept.forget(1, nullptr);
    EXPECT_NE(use(kept, 3, 1 << 21), nullptr);
    EXPECT_LE(device.peak(), 5 << 19);
}

TEST_F(KeptWorkspacesTest, ANewStreamGetsWhatWasUsedLeastRecentlyOnceItIsDone) {
    KeptWorkspaces kept(device, kAll);
    std::vector<void *> memory;
    for (uint64_t number = 1; number <= kPlaces; ++number) memory.push_back(use(kept, number, 1));
    const uint64_t oldest = KeptWorkspaces::kSettled + 2;  // As the first of those that can go is used once more.
    EXPECT_EQ(use(kept, oldest - 1, 1), memory[oldest - 2]);
    device.times_not_done = 1;
    EXPECT_EQ(use(kept, 100, 1), nullptr) << "its work goes on";
    EXPECT_EQ(use(kept, 100, 1), memory[oldest - 1]);
    EXPECT_EQ(device.allocations, kPlaces);
    EXPECT_EQ(use(kept, oldest + 1, 1), memory[oldest]);
    device.times_not_done = 0;
    KeptWorkspaces::Place *taken = nullptr;
    ASSERT_EQ(kept.take(1, oldest + 2, nullptr, &taken), ATTILE_OK);  // Used most recently, and still in use below.
    for (uint64_t number = 200; number < 200 + KeptWorkspaces::kRoving - 1; ++number) EXPECT_NE(use(kept, number, 1), nullptr);
    for (uint64_t number = 300; number < 300 + KeptWorkspaces::kRoving; ++number) EXPECT_NE(use(kept, number, 1), taken->memory());
    kept.give(taken, nullptr);
    EXPECT_EQ(use(kept, oldest + 2, 1), memory[oldest + 1]);
    for (uint64_t number = 1; number <= KeptWorkspaces::kSettled; ++number) EXPECT_EQ(use(kept, number, 1), memory[number - 1]);
}

TEST_F(KeptWorkspacesTest, WhoseEndIsNotKnownStays) {
    KeptWorkspaces kept(device, kAll);
    for (uint64_t number = 1; number <= KeptWorkspaces::kSettled; ++number) use(kept, number, 1);
    device.failing = "event_create";
    EXPECT_EQ(use(kept, 50, 1), nullptr);
    device.failing = "event_record";
    for (uint64_t number = 50; number < 50 + KeptWorkspaces::kRoving; ++number) EXPECT_NE(use(kept, number, 1), nullptr);
    EXPECT_EQ(use(kept, 100, 1), nullptr);
    device.failing.clear();
    void *const known = use(kept, 51, 1);
    device.failing = "event_done";
    EXPECT_EQ(use(kept, 100, 1), nullptr);
    device.failing.clear();
    EXPECT_EQ(use(kept, 100, 1), known);
}

TEST_F(KeptWorkspacesTest, AFailureLeavesWhatWasBefore) {
    KeptWorkspaces kept(device, 1 << 20);
    KeptWorkspaces::Place *place = nullptr;
    device.failing = "alloc";
    EXPECT_EQ(kept.take(1000, 1, nullptr, &place), ATTILE_ERROR_DEVICE_RUNTIME);
    EXPECT_EQ(place, nullptr);
    device.failing.clear();
    void *const first = use(kept, 1, 1000);
    ASSERT_NE(first, nullptr);
    device.failing = "alloc";
    EXPECT_EQ(kept.take(1 << 19, 1, nullptr, &place), ATTILE_ERROR_DEVICE_RUNTIME);
    EXPECT_EQ(place, nullptr);
    EXPECT_EQ(use(kept, 1, 1000), first) << "what there was is enough for it";
    device.failing = "free";  // What was before does not go.
    EXPECT_EQ(kept.take(1 << 19, 1, nullptr, &place), ATTILE_ERROR_DEVICE_RUNTIME);
    EXPECT_EQ(place, nullptr);
    device.failing.clear();
    EXPECT_NE(use(kept, 1, 1 << 20), nullptr) << "failures took away from what may be kept";
    EXPECT_EQ(device.blocks(), 1U);
}

TEST(KeptWorkspaces, GivesBackFirstWhereThereIsNoRoomForBoth) {
    PoolDevice device(int64_t{5} << 18);
    KeptWorkspaces kept(device, kAll);
    KeptWorkspaces::Place *place = nullptr;
    for (const int64_t bytes : {int64_t{1} << 19, int64_t{1} << 20}) {
        ASSERT_EQ(kept.take(bytes, 1, nullptr, &place), ATTILE_OK) << bytes;
        ASSERT_NE(place, nullptr);
        kept.give(place, nullptr);
    }
    EXPECT_EQ(kept.take(int64_t{1} << 21, 1, nullptr, &place), ATTILE_OK) << "the call may find as much as it needs by itself";
    EXPECT_EQ(place, nullptr);
    ASSERT_EQ(kept.take(int64_t{1} << 20, 1, nullptr, &place), ATTILE_OK);
    ASSERT_NE(place, nullptr);
    kept.give(place, nullptr);
}

TEST_F(KeptWorkspacesTest, ThreadsNeverShareIt) {
    KeptWorkspaces kept(device, kAll);
    std::mutex lock;
    std::set<void *> in_use;
    int shared = 0, got = 0;
    const auto call = [&](unsigned thread) {
        for (unsigned i = 0; i < 2000; ++i) {
            KeptWorkspaces::Place *place = nullptr;
            if (kept.take(1 + i % 7 * 50000, 1 + (thread + i) % 3, nullptr, &place) != ATTILE_OK || place == nullptr) continue;
            void *const memory = place->memory();
            *static_cast<volatile unsigned *>(memory) = i;
            {
                const std::lock_guard<std::mutex> guard(lock);
                ++got;
                shared += in_use.insert(memory).second ? 0 : 1;
            }
            std::this_thread::yield();
            {
                const std::lock_guard<std::mutex> guard(lock);
                in_use.erase(memory);
            }
            kept.give(place, nullptr);
            if (i % 100 == 99) kept.forget(1 + thread % 3, nullptr);
        }
    };
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < 4; ++thread) threads.emplace_back(call, thread);
    for (std::thread &thread : threads) thread.join();
    EXPECT_EQ(shared, 0);
    EXPECT_GT(got, 1000);
}

}  // namespace
}  // namespace attile::test
