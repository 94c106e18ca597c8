// SPDX-License-Identifier: Apache-2.0
// Rows that every rank has: each gets the result of one rank, and the same bits as all the others, whatever the transport.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "any_run.h"
#include "options.h"
#include "sharded_attention.h"

namespace attile::test {
namespace {

class Tree : public testing::TestWithParam<int> {};

TEST_P(Tree, EveryLayoutAndOption) {
    const int ranks = GetParam();
    const std::size_t step = number("ATTILE_DISTRIBUTED_STEP", 1);
    std::vector<ShardedCase> cases;
    for (const std::int64_t rows : {1, 5}) {
        for (std::size_t at = 0; at < options().size(); at += step) {
            AttentionCase c = case_of(options()[at], kTypes[(at / step + static_cast<std::size_t>(rows)) % 4]);
            if (c.len_q != 0) c.len_q = rows + c.max_len_cut;
            cases.emplace_back(c);
        }
    }
    for (const std::string &backend : backends()) {
        std::vector<Job> jobs;
        for (const ShardedCase &one : cases) {
            for (int layout = 0; layout < 3; ++layout) {
                RunOfCase run;
                run.ranks = ranks;
                run.backend = backend;
                run.layout = layout;
                run.method = layout == 0 ? ATTILE_METHOD_AUTO : ATTILE_METHOD_TREE;
                run.replicated = true;
                jobs.push_back({&one, run, {}, {}});
            }
        }
        run_jobs(jobs);
        for (const Job &job : jobs) EXPECT_EQ(job.wrong, "") << describe(job.run) << ": " << job.test_case->text();
    }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Tree, testing::Values(1, 2, 3, 4, 6, 8), [](const auto &given) { return std::to_string(given.param); });

TEST(TransportsOfTree, GiveTheSameBits) {
    std::vector<ShardedCase> cases;
    for (std::size_t at = 0; at < options().size(); at += number("ATTILE_DISTRIBUTED_STEP", 1))
        cases.emplace_back(case_of(options()[at], ATTILE_BF16));
    std::vector<Job> jobs;
    for (const ShardedCase &one : cases) {
        RunOfCase run;
        run.ranks = 6;
        run.backend = backends().back();
        run.layout = ATTILE_SHARDS_STRIPED;
        run.method = ATTILE_METHOD_TREE;
        run.replicated = true;
        jobs.push_back({&one, run, {}, {}});
    }
    expect_the_same_bits(jobs);
}

// A result goes up and down the tree, nothing else: log2 of the ranks, from every rank.
TEST(TrafficOfTree, IsResultsAlone) {
    AttentionCase c = case_of(options()[0], ATTILE_F32);
    c.len_q = 1;
    const ShardedCase one(c);
    Mail mail(4, {});
    RunOfCase run;
    run.ranks = 4;
    run.method = ATTILE_METHOD_TREE;
    run.replicated = true;
    run.mail = &mail;
    ASSERT_EQ(run_case(one, run), "");
    const std::int64_t talk = mail.bytes(0, 3), result = 2 * 4 * (5 + 1) * 4;  // batch, heads, columns and lse, bytes
    EXPECT_EQ(mail.bytes(0, 1) - talk, result);
    EXPECT_EQ(mail.bytes(0, 2) - talk, result);
    EXPECT_EQ(mail.bytes(3, 1) - talk, result);
    EXPECT_EQ(mail.bytes(1, 2), talk);
}

}  // namespace
}  // namespace attile::test
