// SPDX-License-Identifier: Apache-2.0
// Gradients by every layout, method and option against one rank: within the rule of the local call, and the same bits in every run. The
// environment is that of methods_test.cpp.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "any_run.h"
#include "options.h"
#include "sharded_gradients.h"

namespace attile::test {
namespace {

class Gradients : public testing::TestWithParam<int> {};

TEST_P(Gradients, EveryLayoutMethodAndOption) {
    const int ranks = GetParam();
    std::map<std::pair<std::size_t, std::int32_t>, ShardedGradients> cases;
    expect_every_layout_method_and_option(ranks, [&](std::size_t at, std::int32_t dtype) -> const CaseOverRanks & {
        return cases.try_emplace({at, dtype}, gradients_of(case_of(options()[at], dtype), at)).first->second;
    });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Gradients, testing::Values(1, 2, 3, 4, 6, 8),
                         [](const auto &given) { return std::to_string(given.param); });

// Sums over rows, heads, entries and keys, named by extents of 1 and by strides of 0.
TEST(GradientOfBias, SumsOverWhatBiasBroadcasts) {
    std::vector<ShardedGradients> cases;
    for (const std::uint8_t axes : {15, 8, 10, 12, 4, 1, 11, 7, 0}) {
        for (const bool more : {false, true}) {
            AttentionCase c = case_of(options()[0], ATTILE_F32);
            c.bias = BiasKind::kNormal;
            c.bias_axes = axes;
            c.bias_rank = axes == 8 ? 1 : axes == 12 ? 2 : 4;
            if (more) c.alibi = 2, c.key_lengths = true, c.batch = 3, c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
            cases.emplace_back(gradients_of(c));
        }
    }
    for (const std::string &backend : backends()) {
        std::vector<Job> jobs;
        for (const ShardedGradients &one : cases) {
            for (int method = ATTILE_METHOD_RING; method <= ATTILE_METHOD_ALL_TO_ALL; ++method) {
                for (const bool strides : {false, true}) {
                    RunOfCase run;
                    run.ranks = 3;
                    run.backend = backend;
                    run.layout = method - 1;
                    run.method = method;
                    run.strides = strides;
                    jobs.push_back({&one, run, {}, {}});
                }
            }
        }
        run_jobs(jobs);
        for (std::size_t i = 0; i < jobs.size(); ++i) {
            EXPECT_EQ(jobs[i].wrong, "") << describe(jobs[i].run) << ": " << jobs[i].test_case->text();
            EXPECT_EQ(jobs[i].bytes, jobs[i - i % 2].bytes) << "strides of 0 give other bits: " << jobs[i].test_case->text();
        }
    }
}

// Sums of ranks without rows, whose bias and dbias have no element unless they have one row for all. By strides of 0 they say nothing.
TEST(GradientOfBias, RanksWithoutRows) {
    std::vector<ShardedGradients> cases;
    for (const std::uint8_t axes : {15, 8, 10, 12, 4, 1, 11, 7, 0}) {
        for (const std::int64_t rows : {21, 3, 0}) {
            AttentionCase c = case_of(options()[0], ATTILE_F32);
            c.bias = BiasKind::kNormal;
            c.bias_axes = axes;
            c.bias_rank = axes == 8 ? 1 : axes == 12 ? 2 : 4;
            c.len_q = rows;
            cases.emplace_back(gradients_of(c));
        }
    }
    for (const std::string &backend : backends()) {
        std::vector<Job> jobs;
        for (const ShardedGradients &one : cases) {
            const std::int64_t rows = one.total_q();
            for (const std::vector<std::int64_t> &cuts :
                 {std::vector<std::int64_t>{0, rows / 2, rows / 2}, {0, 0, rows}, {0, rows, rows}}) {
                for (int method = ATTILE_METHOD_RING; method <= ATTILE_METHOD_ALL_TO_ALL; ++method) {
                    for (const bool strides : {false, true}) {
                        RunOfCase run;
                        run.ranks = 3;
                        run.backend = backend;
                        run.method = method;
                        run.cuts_q = cuts;
                        run.strides = strides;
                        jobs.push_back({&one, run, {}, {}});
                    }
                }
            }
        }
        run_jobs(jobs);
        for (const Job &job : jobs) EXPECT_EQ(job.wrong, "") << describe(job.run) << ": " << job.test_case->text();
    }
}

// As many ranks as rows: a rank's one row of dbias is its own.
TEST(GradientOfBias, OneRowOnEachRank) {
    AttentionCase c = case_of(options()[0], ATTILE_F32);
    c.bias = BiasKind::kNormal;
    c.len_q = 4;
    const ShardedGradients one(gradients_of(c));
    for (int method = ATTILE_METHOD_RING; method <= ATTILE_METHOD_ALL_TO_ALL; ++method) {
        RunOfCase run;
        run.ranks = 4;
        run.method = method;
        EXPECT_EQ(run_case(one, run), "") << describe(run);
    }
}

// Without columns of q and k the sums of dq and dk are empty, that of dsinks is not.
TEST(GradientOfSinks, WithoutColumns) {
    AttentionCase c = case_of(options()[0], ATTILE_F32);
    c.head_dim = 0;
    c.sinks = true;
    const ShardedGradients one(gradients_of(c));
    for (int method = ATTILE_METHOD_RING; method <= ATTILE_METHOD_ALL_TO_ALL; ++method) {
        RunOfCase run;
        run.ranks = 2;
        run.method = method;
        EXPECT_EQ(run_case(one, run), "") << describe(run);
    }
}

// Threads, and callbacks with and without collectives, whatever the order in which messages arrive.
TEST(TransportsOfGradients, GiveTheSameBits) {
    std::vector<ShardedGradients> cases;
    for (std::size_t at = 0; at < options().size(); at += number("ATTILE_DISTRIBUTED_STEP", 1))
        cases.emplace_back(gradients_of(case_of(options()[at], ATTILE_F32)));
    std::vector<Job> jobs;
    for (const ShardedGradients &one : cases) {
        for (int method = ATTILE_METHOD_RING; method <= ATTILE_METHOD_ALL_TO_ALL; ++method) {
            RunOfCase run;
            run.ranks = 4;
            run.backend = backends().back();
            run.layout = ATTILE_SHARDS_ZIGZAG;
            run.method = method;
            jobs.push_back({&one, run, {}, {}});
        }
    }
    expect_the_same_bits(jobs);
}

TEST(RandomGradients, Problems) {
    const std::uint64_t problems = number("ATTILE_DISTRIBUTED_PROBLEMS", (full_list() ? 200 : 16) / number("ATTILE_DISTRIBUTED_STEP", 1));
    for (std::uint64_t seed = 1; seed <= problems; ++seed) {
        BackwardCase c = random_backward(seed);
        AttentionCase &f = c.forward;
        f.packed_k = f.packed_q = seed % 3 == 0;
        f.key_starts = f.causal_offset = c.dlse = false;  // Refused over ranks, as the next two.
        f.block_mask = MaskBytes::kNone;
        f.tree_keys = 0;
        f.len_q = f.len_q % 41;
        f.len_k = f.len_k % 61;
        if (f.packed_q) f.len_q %= 30, f.len_k %= 40;
        // A shard of one row or key has no stride; the data of the case are those of one.
        for (Layout *layout : {&f.q_layout, &f.k_layout, &f.v_layout, &f.bias_layout, &f.allowed_layout}) layout->broadcast = 0;
        const ShardedGradients one(c);
        expect_random_runs(one, one.total_q(), one.total_k(), seed);
    }
}

// What a mask hides is not sent: under a causal mask keys go to later ranks alone, and the sums of dk and dv come from these.
TEST(TrafficOfGradients, LeavesHiddenChunksAway) {
    AttentionCase c = case_of(options()[0], ATTILE_BF16);
    c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
    c.len_q = c.len_k = 64;
    const ShardedGradients one(gradients_of(c));
    const std::int64_t keys = 2 * 2 * 16 * (8 + 5) * 2, sums = 2 * keys;  // batch, heads, keys of a rank, columns, bytes; in f32
    for (const int method : {ATTILE_METHOD_RING, ATTILE_METHOD_ALL_GATHER}) {
        Mail mail(4, {});
        RunOfCase run;
        run.ranks = 4;
        run.backend = "reference";
        run.method = method;
        run.mail = &mail;
        ASSERT_EQ(run_case(one, run), "");
        const bool ring = method == ATTILE_METHOD_RING;
        const std::int64_t talk = mail.bytes(2, 0) - (ring ? 0 : sums);  // a ring's sums come home from the last rank
        const auto sent = [&](int from, int to) { return mail.bytes(from, to) - talk; };
        EXPECT_GT(talk, 0);
        EXPECT_EQ(sent(0, 2), ring ? 0 : keys);
        EXPECT_EQ(sent(0, 1), keys);
        EXPECT_EQ(sent(1, 0), ring ? 0 : sums);
        EXPECT_EQ(sent(3, 0), sums);
        EXPECT_EQ(sent(3, 2), sums);
        // On a ring keys and sums of all ranks before pass the last link.
        EXPECT_EQ(sent(2, 3), ring ? 3 * keys + 2 * sums : keys);
    }
}

}  // namespace
}  // namespace attile::test
