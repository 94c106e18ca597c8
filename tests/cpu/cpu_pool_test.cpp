// SPDX-License-Identifier: Apache-2.0
// The pool that workspaces come from, and the blocks that it is made of.
#include "pool.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "block.h"

namespace attile::cpu {
namespace {

TEST(CpuPool, BlocksComeBackAndAreUsedAgain) {
    Pool pool;
    void *first = pool.take(100000);
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 256, 0u);
    std::memset(first, 1, 100000);
    void *second = pool.take(100000);
    ASSERT_NE(second, nullptr);
    EXPECT_NE(first, second);
    std::memset(second, 2, 100000);
    EXPECT_EQ(static_cast<char *>(first)[99999], 1);
    pool.give(first);
    EXPECT_EQ(pool.take(90000), first);
    pool.give(first);
    pool.give(second);
    pool.give(nullptr);
}

TEST(CpuPool, LargeBlocksAreAlignedToo) {
    Pool pool;
    void *block = pool.take(int64_t{5} << 20);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 256, 0u);
    std::memset(block, 3, size_t{5} << 20);
    pool.give(block);
}

TEST(CpuBlock, LargeOnesBeginWithAHugePage) {
    for (const int64_t bytes : {int64_t{1}, kHugePage - 1, kHugePage, 2 * kHugePage + 1}) {
        void *block = allocate_block(bytes);
        ASSERT_NE(block, nullptr);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % static_cast<uintptr_t>(bytes < kHugePage ? kBlockAlignment : kHugePage), 0u)
            << bytes;
        std::memset(block, 5, static_cast<size_t>(bytes));
        std::free(block);
    }
    for (const int64_t bytes : {int64_t{1} << 60, INT64_MAX - kHugePage + 1, INT64_MAX}) EXPECT_EQ(allocate_block(bytes), nullptr) << bytes;
}

TEST(CpuPool, WhatCannotBeHadIsNull) {
    Pool pool;
    EXPECT_EQ(pool.take(int64_t{1} << 60), nullptr);
}

TEST(CpuPool, NothingIsKeptBeyondTheLimit) {
    Pool pool;
    pool.set_limit(1 << 20);
    std::vector<void *> blocks;
    for (int i = 0; i < 40; ++i) blocks.push_back(pool.take(200000));
    for (void *block : blocks) {
        ASSERT_NE(block, nullptr);
        std::memset(block, 4, 200000);
    }
    for (void *block : blocks) pool.give(block);  // a leak of those not kept is LeakSanitizer's to find
}

}  // namespace
}  // namespace attile::cpu
