// SPDX-License-Identifier: Apache-2.0
// Every layout, method and option against one rank: rows within the rule of the local call, and the same bits in every run.
// Environment: ATTILE_TEST_BACKEND, one backend; ATTILE_TEST_TIER=full, every type and more problems (2 minutes);
// ATTILE_DISTRIBUTED_STEP=n, every n-th option; ATTILE_DISTRIBUTED_PROBLEMS=n, so many problems at random.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "any_run.h"
#include "options.h"
#include "sharded_attention.h"

namespace attile::test {
namespace {

class Methods : public testing::TestWithParam<int> {};

TEST_P(Methods, EveryLayoutMethodAndOption) {
    const int ranks = GetParam();
    std::map<std::pair<std::size_t, std::int32_t>, ShardedCase> cases;
    expect_every_layout_method_and_option(ranks, [&](std::size_t at, std::int32_t dtype) -> const CaseOverRanks & {
        return cases.try_emplace({at, dtype}, case_of(options()[at], dtype)).first->second;
    });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Methods, testing::Values(1, 2, 3, 4, 6, 8), [](const auto &given) { return std::to_string(given.param); });

TEST(Types, EachByEachMethod) {
    std::vector<ShardedCase> cases;
    for (const std::int32_t dtype : kTypes) {
        AttentionCase c = case_of({"", [](AttentionCase &x) { x.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT, x.sinks = true; }}, dtype);
        for (const std::int32_t out : {dtype, std::int32_t{ATTILE_F32}}) {
            c.out_dtype = out;
            cases.emplace_back(c);
        }
    }
    for (const std::string &backend : backends()) {
        std::vector<Job> jobs;
        for (const ShardedCase &one : cases) {
            for (int method = ATTILE_METHOD_AUTO; method <= ATTILE_METHOD_ALL_TO_ALL; ++method) {
                RunOfCase run;
                run.ranks = 3;
                run.backend = backend;
                run.layout = ATTILE_SHARDS_ZIGZAG;
                run.method = method;
                jobs.push_back({&one, run, {}, {}});
            }
        }
        run_jobs(jobs);
        for (const Job &job : jobs) EXPECT_EQ(job.wrong, "") << describe(job.run) << ": " << job.test_case->text();
    }
}

std::atomic<int> local_calls;
void count_call(void *, std::int32_t, const char *line) { local_calls += std::strcmp(line, "attention") == 0; }

// Chunks of rows that see all of the same chunks of keys are one call: of three ranks 9 for 36 pairs of chunks, and under a causal mask 15
// for 21.
TEST(Ring, RowsThatSeeTheSameKeysAreOneCall) {
    for (const std::int32_t mask : {ATTILE_MASK_NONE, ATTILE_MASK_CAUSAL_TOP_LEFT}) {
        const ShardedCase one(case_of({"", [&](AttentionCase &x) { x.mask = mask, x.len_q = x.len_k = 36; }}, ATTILE_F32));
        RunOfCase run;
        run.ranks = 3;
        run.backend = "reference";
        run.layout = ATTILE_SHARDS_ZIGZAG;
        run.method = ATTILE_METHOD_RING;
        std::vector<Job> jobs = {{&one, run, {}, {}}};
        local_calls = 0;
        attile_set_log(count_call, nullptr, ATTILE_LOG_TRACE);
        run_jobs(jobs);
        attile_set_log(nullptr, nullptr, ATTILE_LOG_OFF);
        EXPECT_EQ(jobs[0].wrong, "");
        EXPECT_EQ(local_calls, mask == ATTILE_MASK_NONE ? 9 : 15);
    }
}

// Threads, and callbacks with and without collectives, whatever the order in which messages arrive.
TEST(Transports, GiveTheSameBits) {
    std::vector<ShardedCase> cases;
    for (std::size_t at = 0; at < options().size(); at += number("ATTILE_DISTRIBUTED_STEP", 1))
        cases.emplace_back(case_of(options()[at], ATTILE_F32));
    std::vector<Job> jobs;
    for (const ShardedCase &one : cases) {
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

TEST(Random, Problems) {
    const std::uint64_t problems = number("ATTILE_DISTRIBUTED_PROBLEMS", (full_list() ? 200 : 16) / number("ATTILE_DISTRIBUTED_STEP", 1));
    for (std::uint64_t seed = 1; seed <= problems; ++seed) {
        AttentionCase c = random_attention(seed);
        c.packed_k = c.packed_q = seed % 3 == 0;
        c.page_size = 0;
        c.key_starts = c.causal_offset = false;  // Refused over ranks, as the next two.
        c.block_mask = MaskBytes::kNone;
        c.tree_keys = 0;
        c.len_q = c.len_q % 97;
        c.len_k = c.len_k % 130;
        if (c.packed_q) c.len_q %= 30, c.len_k %= 40;
        // A shard of one row or key has no stride; the data of the case are those of one.
        for (Layout *layout : {&c.q_layout, &c.k_layout, &c.v_layout, &c.bias_layout, &c.allowed_layout}) layout->broadcast = 0;
        const ShardedCase one(c);
        expect_random_runs(one, one.total_q(), one.total_k(), seed);
    }
}

// What a mask hides is not sent: under a causal mask nothing goes to ranks whose rows come before all keys of the others.
TEST(Traffic, LeavesHiddenChunksAway) {
    const ShardedCase one(
        case_of({"", [](AttentionCase &c) { c.mask = ATTILE_MASK_CAUSAL_TOP_LEFT, c.len_q = c.len_k = 64; }}, ATTILE_F32));
    const std::int64_t chunk = 2 * 2 * 16 * (8 + 5) * 4;  // batch, heads, keys of a rank, columns, bytes
    for (const int method : {ATTILE_METHOD_RING, ATTILE_METHOD_ALL_GATHER}) {
        Mail mail(4, {});
        RunOfCase run;
        run.ranks = 4;
        run.method = method;
        run.mail = &mail;
        ASSERT_EQ(run_case(one, run), "");
        const std::int64_t talk = mail.bytes(1, 0);  // rank 0 sees no key of rank 1
        EXPECT_LT(talk, chunk);
        const auto sent = [&](int from, int to) { return mail.bytes(from, to) - talk; };
        EXPECT_EQ(sent(3, 0), 0);
        EXPECT_EQ(sent(0, 1), chunk);
        EXPECT_EQ(sent(0, 3), method == ATTILE_METHOD_RING ? 0 : chunk);
        EXPECT_EQ(sent(2, 3), method == ATTILE_METHOD_RING ? 3 * chunk : chunk);
    }
}

}  // namespace
}  // namespace attile::test
