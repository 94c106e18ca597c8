// SPDX-License-Identifier: Apache-2.0
// What `attile explain` says of a GPU's kernels, for answers of a backend that are made up here: no device is needed.
#include <gtest/gtest.h>

#include <cstdio>

#include "explain_facts.h"
#include "ring_facts.h"

namespace {

using namespace attile;
using namespace attile::cli;
using testing::IsNotSubstring;
using testing::IsSubstring;

attile_context_info device(const char *arch) {
    attile_context_info info;
    attile_context_info_init(&info, sizeof info);
    std::snprintf(info.arch, sizeof info.arch, "%s", arch);
    info.max_threads_per_unit = 2048;
    info.max_blocks_per_unit = 32;
    info.registers_per_unit = 65536;
    info.shared_per_unit = 98304;
    info.peak_flops_f32 = 8e12;
    info.peak_flops_f64 = 25e10;
    info.peak_bandwidth = 320e9;
    return info;
}

attile_support kernel(int32_t tile_m, int32_t tile_n, int32_t threads, int32_t registers, int32_t shared, int64_t blocks) {
    attile_support support;
    attile_support_init(&support, sizeof support);
    support.level = ATTILE_SUPPORT_NATIVE;
    support.tile_m = tile_m, support.tile_n = tile_n;
    support.threads = threads, support.registers = registers, support.shared_bytes = shared;
    support.blocks = blocks;
    support.splits = 1;
    return support;
}

const Roofs kRoofs = {8e12, 320e9, false};
constexpr auto kSize = bench::Size::kLarge;

// 8 ranks with 8192 rows each of 8 heads of 128 columns in bf16.
TEST(RingFactsTest, EachStepsLinkAndArithmetic) {
    bench::BenchCase one = bench::attention_case(kSize, ATTILE_BF16, 1, 8, 8, 65536, 65536, 128, ATTILE_MASK_CAUSAL_BOTTOM_RIGHT);
    const double shard = 2.0 * 8 * 8192 * 128 * 2;
    const std::vector<RingSteps> forward = ring_steps(one, 64e12, 8);
    ASSERT_EQ(forward.size(), 2U);
    EXPECT_EQ(forward[0].last, 6);
    EXPECT_EQ(forward[0].flops, 1e12);
    EXPECT_EQ(forward[0].bytes, shard);
    EXPECT_EQ(forward[1].bytes, 0);
    // 1e12 operations take 2 ms, and a shard 3.3554432 ms.
    const std::string text = ring_facts(one, 64e12, 8, 1e10, 5e14);
    EXPECT_PRED_FORMAT2(IsSubstring, "8 on a ring, even zigzag shards\n", text);
    EXPECT_PRED_FORMAT2(IsSubstring, "0 to 6", text);
    EXPECT_PRED_FORMAT2(IsSubstring, "time        25.5 ms, of which arithmetic takes 16.0 ms at the peak\n", text);
    EXPECT_PRED_FORMAT2(IsSubstring, "efficiency  62.8 % of what", text);

    one.operation = bench::Operation::kAttentionBackward;
    const std::vector<RingSteps> backward = ring_steps(one, 64e12, 8);
    ASSERT_EQ(backward.size(), 4U);
    const double bytes[] = {shard, 3 * shard, 2 * shard, 2 * shard};  // sums are float32
    const int64_t last[] = {1, 6, 7, 8};
    double all = 0;
    for (size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(backward[i].bytes, bytes[i]) << i;
        EXPECT_EQ(backward[i].last, last[i]) << i;
        all += backward[i].flops * static_cast<double>(backward[i].last - backward[i].first + 1);
    }
    EXPECT_EQ(all, 8e12);  // of a rank
    EXPECT_EQ(ring_steps(one, 64e12, 2).size(), 3U);
    EXPECT_EQ(ring_steps(one, 64e12, 2)[1].bytes, 0);
    EXPECT_EQ(ring_steps(one, 64e12, 1).size(), 1U);
}

TEST(ExplainFactsTest, RegistersLimit) {
    attile_support support = kernel(128, 128, 256, 118, 8192, 1024);
    support.blocks_per_unit = 2;
    const std::string text = occupancy_facts(support, device("sm_61"));
    EXPECT_PRED_FORMAT2(IsSubstring, "in plain numbers  2 blocks, 512 of 2 048 threads, occupancy 25 %, limited by registers\n", text);
    EXPECT_PRED_FORMAT2(IsSubstring, "as allocated      2 blocks, 512 of 2 048 threads, occupancy 25 %, limited by registers\n", text);
    EXPECT_PRED_FORMAT2(IsSubstring, "registers                   65 536         30 208       2           30 720       2\n", text);
    EXPECT_PRED_FORMAT2(IsNotSubstring, "device itself", text);
}

TEST(ExplainFactsTest, TheDeviceHasTheLastWord) {
    attile_support support = kernel(128, 128, 256, 118, 8192, 1024);
    support.blocks_per_unit = 1;
    EXPECT_PRED_FORMAT2(IsSubstring, "The device itself counts 1", occupancy_facts(support, device("sm_61")));
}

TEST(ExplainFactsTest, DevicesWhoseAllocationIsNotKnown) {
    const std::string text = occupancy_facts(kernel(64, 64, 256, 33, 40000, 1), device("gfx90a"));
    EXPECT_PRED_FORMAT2(IsSubstring, "2 blocks, 512 of 2 048 threads, occupancy 25 %, limited by shared memory\n", text);
    EXPECT_PRED_FORMAT2(IsNotSubstring, "allocated", text);
    // Registers that no backend tells limit nothing.
    EXPECT_PRED_FORMAT2(IsSubstring, "not known", occupancy_facts(kernel(64, 64, 256, 0, 0, 1), device("emulated")));
}

TEST(ExplainFactsTest, ProcessorsHaveNoBlocks) {
    attile_context_info info = device("AVX2");
    info.max_threads_per_unit = 0;
    EXPECT_EQ(occupancy_facts(kernel(128, 128, 1, 0, 0, 4), info), "");
    const bench::BenchCase one = bench::gemm_case(kSize, ATTILE_F32, 256, 256, 256);
    EXPECT_EQ(reads_facts(kernel(128, 128, 1, 0, 0, 4), one, kRoofs), "");
}

TEST(ExplainFactsTest, ReadsOfAProduct) {
    attile_support support = kernel(128, 64, 256, 118, 8192, 2048);
    const bench::BenchCase one = bench::gemm_case(kSize, ATTILE_F32, 4096, 4096, 4096, 2);
    support.flops = 4.0 * 4096 * 4096 * 4096;
    const std::string text = reads_facts(support, one, kRoofs);
    EXPECT_PRED_FORMAT2(IsSubstring, "reads without a tile  274 877 906 944 elements of 4 B: 0.25 FLOP/B, memory binds", text);
    EXPECT_PRED_FORMAT2(IsSubstring, "reads with this tile  3 221 225 472 elements of 4 B, 1/85.33 of them: 21.3 FLOP/B, memory binds",
                        text);
    // float64 elements are twice as long.
    EXPECT_PRED_FORMAT2(IsSubstring, "elements of 8 B: 0.125 FLOP/B",
                        reads_facts(support, bench::gemm_case(kSize, ATTILE_F64, 4096, 4096, 4096, 2), kRoofs));
    EXPECT_PRED_FORMAT2(IsNotSubstring, "binds", reads_facts(support, one, Roofs()));
}

TEST(ExplainFactsTest, ReadsOfAttention) {
    attile_support support = kernel(128, 64, 256, 118, 8192, 2 * 8 * 16);
    const bench::BenchCase one = bench::attention_case(kSize, ATTILE_F32, 2, 8, 2, 2048, 2048, 64);
    support.flops = 4.0 * 2 * 8 * 2048 * 2048 * 64;
    // Q once, and K and V once for each of 16 blocks of rows: 64 (2048 + 16 * 2 * 2048) for each of 16 heads.
    EXPECT_PRED_FORMAT2(IsSubstring, "reads without a tile  17 179 869 184 elements", reads_facts(support, one, kRoofs));
    EXPECT_PRED_FORMAT2(IsSubstring, "reads with this tile  69 206 016 elements", reads_facts(support, one, kRoofs));
    EXPECT_EQ(reads_facts(support, bench::reduce_case(kSize, ATTILE_F32, 64, 64, false), kRoofs), "");
    support.blocks *= 2;  // Two blocks share the columns of V: each reads Q and K.
    EXPECT_PRED_FORMAT2(IsSubstring, "reads with this tile  104 857 600 elements", reads_facts(support, one, kRoofs));
}

// One row of each of 32 heads, four of which share a key head and are rows of one block: K and V are read once, by one of eight splits.
TEST(ExplainFactsTest, ReadsOfDecoding) {
    attile_support support = kernel(4, 64, 128, 80, 0, 8 * 8);
    support.splits = 8;
    const bench::BenchCase one = bench::attention_case(kSize, ATTILE_F16, 1, 32, 8, 1, 4096, 128);
    support.flops = 4.0 * 32 * 4096 * 128;
    EXPECT_PRED_FORMAT2(IsSubstring, "reads with this tile  8 421 376 elements of 2 B",
                        reads_facts(support, one, kRoofs));  // 128 (32 * 8 + 2 * 8 * 4096)
}

TEST(ExplainFactsTest, Roofs) {
    const attile_context_info info = device("sm_61");
    EXPECT_EQ(roofs_of(0, 0, &info, ATTILE_F32).peak_flops, 8e12);
    EXPECT_EQ(roofs_of(0, 0, &info, ATTILE_F64).peak_flops, 25e10);
    EXPECT_EQ(roofs_of(0, 0, &info, ATTILE_F16).peak_flops, 8e12);  // No matrix units.
    EXPECT_FALSE(roofs_of(0, 0, &info, ATTILE_F32).given);
    EXPECT_EQ(roofs_of(1e12, 0, &info, ATTILE_F32).bandwidth, 320e9);
    EXPECT_TRUE(roofs_of(1e12, 0, &info, ATTILE_F32).given);
    EXPECT_FALSE(roofs_of(1e12, 0, nullptr, ATTILE_F32).known());
    EXPECT_EQ(elements_text(1234567), "1 234 567");
    EXPECT_EQ(elements_text(1e20), "1e+20");
    EXPECT_EQ(bound_text(model::roofline(36, 28, 200e9, 100e9)), "memory: the intensity is 0.643 of the balance point");
}

}  // namespace
