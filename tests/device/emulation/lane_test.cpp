// SPDX-License-Identifier: Apache-2.0
// The functions of lane.h, each by itself, with warps of 32 and with waves of 64: lane groups keep to themselves, whether the two of a wave
// are together or at different places, in every order in which threads can have their turns.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "fibre.h"
#include "lane.h"

namespace attile::test {
namespace {

using namespace gpu;

constexpr int kThreads = 160;  // Five lane groups: with waves of 64, the last is half a wave.
constexpr bool kIsWide = ATTILE_EMULATED_WAVE == 64;

// What a thread found.
struct Found {
    uint32_t from[32];    // shuffle() from each lane,
    uint32_t across[32];  // and across each mask.
    double wide;          // Of 8 bytes.
    uint32_t ballot, alone;
    bool any, all, wave_any, wave_all;
    float sum, quarter;
    int64_t same;
    int synced;
};
struct Arguments {
    Found *found;
};

uint32_t value_of(int thread) { return 1000u + 7u * static_cast<uint32_t>(thread); }
bool says_yes(int thread) { return (thread * 2654435761u >> 13 & 3) == 0 || thread / 32 == 1; }  // All of group 1, some of the others.

void every_function(Arguments arguments) {
    const int thread = static_cast<int>(threadIdx.x), group = lane_group_index();
    Found &found = arguments.found[thread];
    for (int lane = 0; lane < 32; ++lane) found.from[lane] = shuffle(value_of(thread), lane);
    for (int mask = 0; mask < 32; ++mask) found.across[mask] = shuffle_xor(value_of(thread), mask);
    found.wide = shuffle_xor(1.0 / (thread + 1), 9);
    found.ballot = lane_ballot(says_yes(thread));
    found.any = lane_any(group == 2 && lane_index() == 31);
    found.all = lane_all(says_yes(thread));
    found.wave_any = wave_any(group == 2);
    found.wave_all = wave_all(group >= 2);
    found.sum = lane_fold(static_cast<float>(thread), [](float a, float b) { return a + b; });
    found.quarter = lane_fold<8>(static_cast<float>(thread), [](float a, float b) { return a > b ? a : b; });
    found.same = same_in_block(int64_t{-5} << 40);
    // Only odd groups come here: of a wave of 64, one half.
    found.alone = 0;
    if (group % 2 == 1) found.alone = lane_ballot(says_yes(thread)) ^ shuffle(value_of(thread), 3) ^ shuffle_xor(value_of(thread), 16);
    static int shared[kThreads];
    shared[thread] = thread;
    lane_sync();
    found.synced = shared[thread ^ 1];
    block_sync_counted<kThreads, false>();
    found.synced += shared[(thread + 37) % kThreads];
}

std::string run(void (*kernel)(Arguments), std::vector<Found> &found, emulation::Order order) {
    found.assign(kThreads, {});
    Arguments arguments{found.data()};
    void *addresses[] = {&arguments};
    return emulation::run_grid(reinterpret_cast<const void *>(kernel), &emulation::Caller<Arguments>::call, addresses, {1, 1, 1},
                               {kThreads, 1, 1}, 0, order);
}

class Lanes : public testing::TestWithParam<emulation::Order> {};

TEST_P(Lanes, EveryFunctionKeepsToItsGroup) {
    std::vector<Found> all;
    ASSERT_EQ(run(every_function, all, GetParam()), "");
    for (int thread = 0; thread < kThreads; ++thread) {
        SCOPED_TRACE(thread);
        const Found &found = all[static_cast<std::size_t>(thread)];
        const int group = thread / 32, first = group * 32;
        uint32_t ballot = 0;
        float sum = 0;
        for (int lane = 0; lane < 32; ++lane) {
            EXPECT_EQ(found.from[lane], value_of(first + lane));
            EXPECT_EQ(found.across[lane], value_of(thread ^ lane));
            ballot |= static_cast<uint32_t>(says_yes(first + lane)) << lane;
            sum += static_cast<float>(first + lane);
        }
        EXPECT_EQ(found.wide, 1.0 / ((thread ^ 9) + 1));
        EXPECT_EQ(found.ballot, ballot);
        EXPECT_EQ(found.any, group == 2);
        EXPECT_EQ(found.all, ballot == 0xffffffffu);
        EXPECT_EQ(found.wave_any, kIsWide ? group / 2 == 1 : group == 2);
        EXPECT_EQ(found.wave_all, group >= 2);
        EXPECT_EQ(found.sum, sum);
        EXPECT_EQ(found.quarter, static_cast<float>(thread / 8 * 8 + 7));
        EXPECT_EQ(found.same, int64_t{-5} << 40);
        EXPECT_EQ(found.alone, group % 2 == 1 ? ballot ^ value_of(first + 3) ^ value_of(thread ^ 16) : 0);
        EXPECT_EQ(found.synced, (thread ^ 1) + (thread + 37) % kThreads);
    }
}

// Lane groups at different barriers of the program: as many for each group, which is enough for warps; a wave of 64 comes to one at a time.
void barriers_apart(Arguments) {
    if (lane_group_index() % 2 == 0)
        block_sync_counted<kThreads, false>();
    else
        block_sync_counted<kThreads, false>();
}
// The same, decided by whole waves.
void barriers_by_wave(Arguments) {
    if (wave_all(lane_group_index() / 2 % 2 == 0))
        block_sync_counted<kThreads, false>();
    else
        block_sync_counted<kThreads, false>();
}

TEST_P(Lanes, BarriersCountWaves) {
    std::vector<Found> all;
    const std::string fault = run(barriers_apart, all, GetParam());
    if (kIsWide)
        EXPECT_NE(fault.find("do not meet"), std::string::npos) << fault;
    else
        EXPECT_EQ(fault, "");
    EXPECT_EQ(run(barriers_by_wave, all, GetParam()), "");
}

// wave_any() of half a wave would see half of the truth.
void half_a_wave_asks(Arguments arguments) {
    if (lane_group_index() % 2 == 0) arguments.found[threadIdx.x].wave_any = wave_any(true);
    lane_sync();
}
void not_the_same(Arguments arguments) { arguments.found[threadIdx.x].same = same_in_block(static_cast<int64_t>(threadIdx.x)); }

TEST_P(Lanes, WhatIsToldOfAWaveMustHold) {
    std::vector<Found> all;
    EXPECT_EQ(run(half_a_wave_asks, all, GetParam()).empty(), !kIsWide);
    EXPECT_EQ(run(not_the_same, all, GetParam()).empty(), !kIsWide);
}

INSTANTIATE_TEST_SUITE_P(Orders, Lanes,
                         testing::Values(emulation::Order::kForward, emulation::Order::kBackward, emulation::Order::kShuffled),
                         [](const testing::TestParamInfo<emulation::Order> &order) {
                             return order.param == emulation::Order::kForward    ? "Forward"
                                    : order.param == emulation::Order::kBackward ? "Backward"
                                                                                 : "Shuffled";
                         });

}  // namespace
}  // namespace attile::test
