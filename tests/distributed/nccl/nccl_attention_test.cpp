// SPDX-License-Identifier: Apache-2.0
// Attention and its gradients over ranks of NCCL against one rank: every option with each method, tensors on the host and on the device.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nccl_ranks.h"
#include "options.h"
#include "over_ranks.h"
#include "sharded_attention.h"
#include "sharded_gradients.h"

namespace attile::test {
namespace {

// Every option by each method, or every `step`-th: with tensors of the device, and a third of these with tensors of the host. Layouts and
// types take turns.
void expect_right(int ranks, std::vector<int> methods, std::size_t step,
                  const std::function<std::unique_ptr<CaseOverRanks>(std::size_t option, std::int32_t dtype)> &make) {
    for (const Placement placement : {Placement::kHost, Placement::kDevice}) {
        const NcclComms comms(ranks);
        const RanksOptions options = ranks_of(comms, ranks);
        std::vector<std::unique_ptr<CaseOverRanks>> cases;
        std::vector<Job> jobs;
        const std::size_t stride = placement == Placement::kHost ? 3 * step : step;
        for (std::size_t at = 0; at < attile::test::options().size(); at += stride) {
            for (const int method : methods) {
                const std::size_t turn = at + static_cast<std::size_t>(method + ranks);
                cases.push_back(make(at, kTypes[turn % 4]));
                RunOfCase run;
                run.ranks = ranks;
                run.join = options.join;
                run.backends = options.backends;
                run.backend = device_of_rank(0);
                run.placement = placement;
                run.layout = static_cast<int>(turn % 3);
                run.method = method;
                run.replicated = method == ATTILE_METHOD_TREE;
                jobs.push_back({cases.back().get(), run, {}, {}});
            }
        }
        run_jobs(jobs);
        for (const Job &job : jobs) EXPECT_EQ(job.wrong, "") << describe(job.run) << ": " << job.test_case->text();
    }
}

class NcclAttention : public testing::TestWithParam<int> {
  protected:
    void SetUp() override { ATTILE_SKIP_WITHOUT_DEVICES(GetParam()); }
};

TEST_P(NcclAttention, EveryMethodAndOption) {
    expect_right(GetParam(),
                 {ATTILE_METHOD_AUTO, ATTILE_METHOD_RING, ATTILE_METHOD_ALL_GATHER, ATTILE_METHOD_ALL_TO_ALL, ATTILE_METHOD_TREE}, 1,
                 [](std::size_t at, std::int32_t dtype) { return std::make_unique<ShardedCase>(case_of(options()[at], dtype)); });
}

TEST_P(NcclAttention, Gradients) {
    expect_right(GetParam(), {ATTILE_METHOD_RING, ATTILE_METHOD_ALL_GATHER, ATTILE_METHOD_ALL_TO_ALL}, 2,
                 [](std::size_t at, std::int32_t dtype) {
                     return std::make_unique<ShardedGradients>(gradients_of(case_of(options()[at], dtype), at));
                 });
}

INSTANTIATE_TEST_SUITE_P(Ranks, NcclAttention, testing::Values(1, 2, 4), [](const auto &given) { return std::to_string(given.param); });

// Messages from the device's memory, from the host's, and between threads.
void expect_the_same_bits(const CaseOverRanks &one, int method) {
    RunOfCase run;
    run.ranks = 3;
    run.layout = ATTILE_SHARDS_ZIGZAG;
    run.method = method;
    run.replicated = method == ATTILE_METHOD_TREE;
    run.backend = device_of_rank(0);
    std::vector<std::byte> threads, host, device;
    EXPECT_EQ(run_case(one, run, &threads), "");
    const NcclComms comms(run.ranks);
    run.join = ranks_of(comms, run.ranks).join;
    run.backends = ranks_of(comms, run.ranks).backends;
    EXPECT_EQ(run_case(one, run, &host), "");
    run.placement = Placement::kDevice;
    EXPECT_EQ(run_case(one, run, &device), "");
    if (!Nccl::instance().is_stand_in()) return;  // on a GPU calls that are staged may take other kernels
    EXPECT_EQ(host, threads) << describe(run);
    EXPECT_EQ(device, threads) << describe(run);
}

TEST(NcclBits, AreThoseOfThreads) {
    ATTILE_SKIP_WITHOUT_DEVICES(3);
    for (const int method : {ATTILE_METHOD_RING, ATTILE_METHOD_ALL_GATHER, ATTILE_METHOD_ALL_TO_ALL, ATTILE_METHOD_TREE}) {
        expect_the_same_bits(ShardedCase(case_of(options()[14], ATTILE_BF16)), method);
    }
    for (const int method : {ATTILE_METHOD_RING, ATTILE_METHOD_ALL_GATHER, ATTILE_METHOD_ALL_TO_ALL}) {
        AttentionCase divided = case_of(options()[2], ATTILE_BF16);
        divided.heads_q = 6;
        divided.heads_kv = 3;
        expect_the_same_bits(ShardedGradients(gradients_of(divided)), method);
    }
}

// A step is queued, and its messages begin, whether the step before is over or not.
TEST(NcclBits, AreTheSameWhereMarksComeLate) {
    if (!Nccl::instance().is_stand_in()) GTEST_SKIP() << "a GPU's marks come when they come";
    constexpr int kRanks = 4;
    const AttentionCase plain = case_of(options()[0], ATTILE_F32);
    const ShardedCase forward(plain);
    const ShardedGradients gradients(gradients_of(plain));
    for (const CaseOverRanks *one : {static_cast<const CaseOverRanks *>(&forward), static_cast<const CaseOverRanks *>(&gradients)}) {
        for (const int layout : {ATTILE_SHARDS_CONTIGUOUS, ATTILE_SHARDS_ZIGZAG, ATTILE_SHARDS_STRIPED}) {
            const NcclComms comms(kRanks);
            RunOfCase run;
            run.ranks = kRanks;
            run.layout = layout;
            run.method = ATTILE_METHOD_RING;
            run.backend = device_of_rank(0);
            run.placement = Placement::kDevice;
            run.join = ranks_of(comms, kRanks).join;
            std::vector<std::byte> at_once, late;
            run.backends = ranks_of(comms, kRanks).backends;
            EXPECT_EQ(run_case(*one, run, &at_once), "");
            run.backends.assign(kRanks, "late");
            EXPECT_EQ(run_case(*one, run, &late), "") << describe(run);
            EXPECT_EQ(late, at_once) << describe(run);
        }
    }
}

std::string text_of(const Rank &rank, int method, Placement placement) {
    attile_attention_args local;
    attile_attention_init(&local, sizeof local);
    const std::int64_t shape[4] = {1, 2, 4, 8};
    const Memory inputs(rank.context, placement, 256), outputs(rank.context, placement, 256);
    for (attile_tensor *tensor : {&local.q, &local.k, &local.v}) attile_tensor_init(tensor, inputs.data(), ATTILE_F32, 4, shape);
    attile_tensor_init(&local.o, outputs.data(), ATTILE_F32, 4, shape);
    attile_attention_distributed_args args;
    attile_attention_distributed_init(&args, sizeof args);
    args.local = &local;
    args.method = method;
    attile_distributed_support support;
    attile_distributed_support_init(&support, sizeof support);
    EXPECT_EQ(attile_attention_distributed_query(rank.comm, &args, &support), ATTILE_OK) << last_error();
    return support.text;
}

TEST(NcclQuery, SaysWhereMessagesLie) {
    ATTILE_SKIP_WITHOUT_DEVICES(2);
    const NcclComms comms(2);
    run_ranks(ranks_of(comms, 2), [&](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        EXPECT_EQ(text_of(rank, ATTILE_METHOD_RING, Placement::kDevice), "ring: asked for; messages lie in device memory");
        EXPECT_EQ(text_of(rank, ATTILE_METHOD_RING, Placement::kHost), "ring: asked for; messages lie in host memory");
        EXPECT_EQ(text_of(rank, ATTILE_METHOD_ALL_TO_ALL, Placement::kDevice),
                  "all-to-all over heads: asked for; messages lie in device memory");
    });
    RanksOptions threads;
    threads.backend = device_of_rank(0);
    run_ranks(threads, [&](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        EXPECT_EQ(text_of(rank, ATTILE_METHOD_RING, Placement::kDevice), "ring: asked for; messages lie in host memory");
    });
}

}  // namespace
}  // namespace attile::test
