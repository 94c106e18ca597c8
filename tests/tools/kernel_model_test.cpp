// SPDX-License-Identifier: Apache-2.0
// The arithmetic of `attile explain` against worked exercises (Kirk and Hwu, Programming Massively Parallel Processors: the chapters on
// scheduling and on memory and tiling), against counts made element by element, and against what devices answered.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "kernel_model.h"

namespace {

using namespace attile::model;

constexpr int64_t kKiB = 1024;
const UnitLimits kTextbookUnit = {2048, 32, 64 * kKiB, 96 * kKiB};

void expect_blocks(const Occupancy &found, int64_t threads, int64_t blocks, int64_t registers, int64_t shared) {
    EXPECT_EQ(found.blocks_by[kByThreads], threads);
    EXPECT_EQ(found.blocks_by[kByBlocks], blocks);
    EXPECT_EQ(found.blocks_by[kByRegisters], registers);
    EXPECT_EQ(found.blocks_by[kByShared], shared);
}

std::set<Limit> limits_of(const Occupancy &found) {
    std::set<Limit> limits;
    for (Limit limit : {kByThreads, kByBlocks, kByRegisters, kByShared})
        if (found.is_limited_by(limit)) limits.insert(limit);
    return limits;
}

TEST(OccupancyModelTest, ExerciseLimitedBySharedMemory) {
    const Occupancy found = occupancy({64, 27, 4 * kKiB}, kTextbookUnit);
    expect_blocks(found, 32, 32, 37, 24);
    EXPECT_EQ(found.blocks, 24);
    EXPECT_EQ(found.threads, 1536);
    EXPECT_DOUBLE_EQ(found.share, 0.75);
    EXPECT_EQ(limits_of(found), std::set<Limit>{kByShared});
}

TEST(OccupancyModelTest, ExerciseOfFullOccupancy) {
    const Occupancy found = occupancy({256, 31, 8 * kKiB}, kTextbookUnit);
    expect_blocks(found, 8, 32, 8, 12);
    EXPECT_EQ(found.threads, 2048);
    EXPECT_DOUBLE_EQ(found.share, 1);
}

// 2048 threads, 32 blocks, 64 K registers; nothing is said of shared memory.
TEST(OccupancyModelTest, ExercisesWithoutSharedMemory) {
    const UnitLimits unit = {2048, 32, 65536, 0};
    EXPECT_DOUBLE_EQ(occupancy({128, 30, 0}, unit).share, 1);
    const Occupancy small = occupancy({32, 29, 0}, unit);
    EXPECT_DOUBLE_EQ(small.share, 0.5);
    EXPECT_EQ(limits_of(small), std::set<Limit>{kByBlocks});
    const Occupancy large = occupancy({256, 34, 0}, unit);
    EXPECT_EQ(large.threads, 1792);
    EXPECT_DOUBLE_EQ(large.share, 0.875);
    EXPECT_EQ(limits_of(large), std::set<Limit>{kByRegisters});
    EXPECT_EQ(large.blocks_by[kByShared], kNoLimit);
}

// The textbook's unit is that of compute capability 6.1. 27 registers become 32 there: 1024 a warp, which fill the registers exactly.
TEST(OccupancyModelTest, ExercisesAsADeviceAllocates) {
    const UnitLimits unit = unit_limits(61).value();
    EXPECT_EQ(std::tie(unit.threads, unit.blocks, unit.registers, unit.shared_bytes),
              std::tie(kTextbookUnit.threads, kTextbookUnit.blocks, kTextbookUnit.registers, kTextbookUnit.shared_bytes));
    const AllocationUnits pascal = allocation_units(61).value(), hopper = allocation_units(90).value();
    expect_blocks(occupancy({64, 27, 4 * kKiB}, unit, pascal), 32, 32, 32, 24);
    expect_blocks(occupancy({256, 31, 8 * kKiB}, unit, pascal), 8, 32, 8, 12);
    // From capability 8.0 on, the system takes 1 KiB of each block's shared memory.
    expect_blocks(occupancy({64, 27, 4 * kKiB}, unit, hopper), 32, 32, 32, 19);
    EXPECT_EQ(allocated({64, 27, 4 * kKiB}, hopper).shared_bytes, 5 * kKiB);
    EXPECT_EQ(allocated({64, 27, 100}, pascal).shared_bytes, 256);
}

TEST(OccupancyModelTest, WhatRoundingUpCosts) {
    const UnitLimits unit = unit_limits(61).value();
    const AllocationUnits pascal = allocation_units(61).value();
    // 33 registers: 1056 a warp, rounded up to 1280.
    EXPECT_EQ(occupancy({256, 33, 0}, unit).blocks, 7);
    EXPECT_EQ(occupancy({256, 33, 0}, unit, pascal).blocks, 6);
    // 144 registers: 4608 a warp, of which 14 fit the unit, but 3 each of its 4 partitions.
    AllocationUnits whole = pascal;
    whole.partitions = 1;
    EXPECT_EQ(occupancy({64, 144, 0}, unit, whole).blocks, 7);
    EXPECT_EQ(occupancy({64, 144, 0}, unit, pascal).blocks, 6);
    // 100 threads take four warps.
    EXPECT_EQ(occupancy({100, 0, 0}, unit).blocks, 20);
    EXPECT_EQ(occupancy({100, 0, 0}, unit, pascal).blocks, 16);
    EXPECT_DOUBLE_EQ(occupancy({100, 0, 0}, unit, pascal).share, 1);
}

// What cudaOccupancyMaxActiveBlocksPerMultiprocessor answered on an H200, of the ladder's step memory 4 and of the library's kernels.
TEST(OccupancyModelTest, AsMeasuredOnAnH200) {
    struct Measured {
        BlockNeeds block;
        int64_t blocks;
    };
    const Measured measured[] = {
        {{256, 109, 0}, 2},       // bounds(256, 1)
        {{256, 64, 0}, 4},        // bounds(256, 4)
        {{256, 32, 0}, 8},        // bounds(256, 8)
        {{256, 128, 16640}, 2},   // gemm, 128x128x8
        {{128, 124, 12544}, 4},   // gemm, 64x128x8
        {{32, 115, 4632}, 16},    // gemm, 32x32x8: 17 in plain numbers
        {{512, 115, 32768}, 1},   // gemm, skinny
        {{128, 154, 16920}, 3},   // gemm, f64
        {{384, 168, 230464}, 1},  // gemm, f16
        {{128, 250, 49152}, 2},   // attention, head dimension 64
        {{64, 238, 24576}, 4},    // attention, 32, short
        {{128, 168, 45312}, 3},   // attention, 128
        {{512, 128, 181760}, 1},  // attention, bf16
        {{256, 170, 16640}, 1},   // decoding
        {{256, 63, 32}, 4},       // reduce
        {{256, 72, 0}, 3},        // softmax
    };
    for (const Measured &one : measured) {
        const Occupancy found = occupancy(one.block, unit_limits(90).value(), allocation_units(90).value());
        EXPECT_EQ(found.blocks, one.blocks) << one.block.threads << " threads, " << one.block.registers << " registers";
    }
    EXPECT_EQ(occupancy({32, 115, 4632}, unit_limits(90).value()).blocks, 17);
}

TEST(OccupancyModelTest, Edges) {
    const Occupancy unknown = occupancy({64, 27, 4096}, {});
    EXPECT_EQ(unknown.blocks, kNoLimit);
    EXPECT_EQ(limits_of(unknown), std::set<Limit>{});
    EXPECT_EQ(unknown.share, 0);
    const Occupancy none = occupancy({1024, 100, 0}, kTextbookUnit);
    EXPECT_EQ(none.blocks, 0);
    EXPECT_EQ(limits_of(none), std::set<Limit>{kByRegisters});
    const int64_t most = int64_t{1} << 30;
    EXPECT_EQ(occupancy({most, most, most}, {most, most, most, most}, allocation_units(90).value()).blocks, 0);
}

TEST(OccupancyModelTest, Capabilities) {
    for (const auto &[text, number] : {std::pair<const char *, int>{"6.1", 61}, {"61", 61}, {"9.0", 90}, {"12.0", 120}, {"120", 120}})
        EXPECT_EQ(parse_capability(text), number) << text;
    for (const char *text : {"", "6", "6.", "6.12", "6.x", "x", "-6.1", " 6.1", "sm_61", "9.0a", "99999999999999999999", "1000", "100.0"})
        EXPECT_EQ(parse_capability(text), 0) << text;
    EXPECT_FALSE(unit_limits(64));
    EXPECT_TRUE(allocation_units(88));
    EXPECT_FALSE(allocation_units(35));
    EXPECT_FALSE(allocation_units(0));
    EXPECT_EQ(shared_per_block(61), 48 * kKiB);
    EXPECT_EQ(shared_per_block(90), 227 * kKiB);
    EXPECT_EQ(shared_per_block(64), 0);
}

// 36 operations and seven accesses of 4 bytes a thread.
TEST(RooflineModelTest, Exercises) {
    const Roofline slow = roofline(36, 28, 200e9, 100e9), fast = roofline(36, 28, 300e9, 250e9);
    EXPECT_FALSE(slow.is_compute_bound());
    EXPECT_TRUE(fast.is_compute_bound());
    for (const Roofline &one : {slow, fast}) EXPECT_DOUBLE_EQ(one.intensity, 9.0 / 7);
    EXPECT_DOUBLE_EQ(slow.balance, 2);
    EXPECT_DOUBLE_EQ(fast.balance, 1.2);
    EXPECT_DOUBLE_EQ(slow.rate, 9e11 / 7);
    EXPECT_DOUBLE_EQ(fast.rate, 300e9);
    EXPECT_DOUBLE_EQ(slow.memory_seconds, 28e-11);
    EXPECT_DOUBLE_EQ(fast.compute_seconds, 12e-11);
}

TEST(RooflineModelTest, Edges) {
    const Roofline pure = roofline(10, 0, 1e9, 1e9), copy = roofline(0, 10, 1e9, 1e9), even = roofline(10, 10, 1e9, 1e9);
    EXPECT_TRUE(pure.is_compute_bound());
    EXPECT_TRUE(std::isinf(pure.intensity));
    EXPECT_DOUBLE_EQ(pure.rate, 1e9);
    EXPECT_FALSE(copy.is_compute_bound());
    EXPECT_EQ(copy.rate, 0);
    EXPECT_TRUE(even.is_compute_bound());
}

TEST(TilingModelTest, ExerciseOfSquares) {
    for (int64_t n : {256, 1024, 4096}) {
        const double cube = std::pow(static_cast<double>(n), 3);
        EXPECT_EQ(reads_without_tile(Product{n, n, n}), 2 * cube);
        for (int64_t tile : {1, 16, 32, 128})
            EXPECT_EQ(reads_with_tile(Product{n, n, n}, tile, tile), 2 * cube / static_cast<double>(tile));
    }
}

// Each block of outputs, one after the other, with the elements that it loads counted.
double count_product(const Product &p, int64_t tile_m, int64_t tile_n) {
    double reads = 0;
    for (int64_t row = 0; row < p.m; row += tile_m)
        for (int64_t column = 0; column < p.n; column += tile_n)
            reads += static_cast<double>(p.k * (std::min(tile_m, p.m - row) + std::min(tile_n, p.n - column)));
    return reads;
}

TEST(TilingModelTest, RaggedProducts) {
    for (const Product &p : {Product{100, 100, 100}, {1, 1, 1}, {33, 65, 7}, {1, 4096, 64}, {127, 3, 1000}})
        for (const auto &[tile_m, tile_n] : {std::pair<int64_t, int64_t>{1, 1}, {16, 16}, {32, 32}, {128, 64}, {8, 32}})
            EXPECT_EQ(reads_with_tile(p, tile_m, tile_n), count_product(p, tile_m, tile_n)) << p.m << "x" << p.n << "x" << p.k;
    EXPECT_EQ(reads_with_tile(Product{100, 100, 0}, 16, 16), 0);
    EXPECT_EQ(reads_with_tile(Product{0, 100, 100}, 16, 16), 0);
}

bool sees(const Attention &a, int64_t row, int64_t key) { return !a.causal || key <= row + a.len_k - a.len_q; }

// Query heads of a group lie next to each other, row by row, where they are packed.
double count_attention(const Attention &a, const AttentionTile &tile) {
    double reads = 0;
    for (int64_t head = 0; head < a.batch * a.heads_q / tile.packed; ++head)
        for (int64_t first = 0; first < a.len_q * tile.packed; first += tile.rows) {
            const int64_t last = std::min(first + tile.rows, a.len_q * tile.packed);
            reads += static_cast<double>((last - first) * a.head_dim * tile.splits * tile.column_blocks);
            for (int64_t key = 0; key < a.len_k; key += tile.keys) {  // A tile of keys is read as a whole if anybody sees any of it.
                bool seen = false;
                for (int64_t row = first; row < last; ++row) seen = seen || sees(a, row / tile.packed, key);
                if (seen) reads += static_cast<double>(std::min(tile.keys, a.len_k - key) * a.head_dim * (tile.column_blocks + 1));
            }
        }
    return reads;
}

TEST(AttentionModelTest, CountedOneByOne) {
    for (const auto &[len_q, len_k] : {std::pair<int64_t, int64_t>{64, 64}, {33, 70}, {70, 33}, {1, 50}, {50, 1}, {17, 0}})
        for (bool causal : {false, true}) {
            const Attention a = {2, 4, 2, len_q, len_k, 8, causal};
            double untiled = 0;
            for (int64_t row = 0; row < len_q; ++row)
                for (int64_t key = 0; key < len_k; ++key) untiled += sees(a, row, key) ? 2 * 4 * 2 * 2 * 8 : 0;
            EXPECT_EQ(reads_without_tile(a), untiled) << len_q << " x " << len_k << (causal ? " causal" : "");
            for (const AttentionTile &tile :
                 {AttentionTile{1, 1, 1, 1, 1}, {16, 8, 1, 1, 1}, {128, 64, 1, 1, 1}, {16, 8, 2, 3, 1}, {4, 16, 2, 1, 1}, {16, 8, 1, 1, 4}})
                EXPECT_EQ(reads_with_tile(a, tile), count_attention(a, tile))
                    << len_q << " x " << len_k << (causal ? " causal" : "") << ", tile " << tile.rows << " x " << tile.keys;
        }
}

}  // namespace
