// SPDX-License-Identifier: Apache-2.0
// Ranks that disagree, fail, are late, leave or run out of memory: a status on every rank within the time limit, and no work afterwards.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "memory_failures.h"
#include "two_calls.h"

namespace attile::test {
namespace {

class Faults : public OfEachKind {};

struct Change {
    const char *name;  ///< in the sentence
    std::function<void(SmallCall &)> make;
};

TEST_P(Faults, DisagreementNamesARankAndWhatDiffers) {
    static float two[2] = {0.5F, 0.25F};
    const Change changes[] = {
        {"layout", [](SmallCall &p) { p.args.layout = ATTILE_SHARDS_STRIPED; }},
        {"method", [](SmallCall &p) { p.args.method = ATTILE_METHOD_ALL_GATHER; }},
        {"heads_q", [](SmallCall &p) { p.local.q.shape[1] = p.local.o.shape[1] = 2; }},
        {"head_dim ", [](SmallCall &p) { p.local.q.shape[3] = p.local.k.shape[3] = 4; }},
        {"head_dim_v", [](SmallCall &p) { p.local.o.shape[3] = p.local.v.shape[3] = 4; }},
        {"len_k", [](SmallCall &p) { p.args.len_k = 16; }},
        {"local->scale", [](SmallCall &p) { p.local.scale = 0.25; }},
        {"local->softcap", [](SmallCall &p) { p.local.softcap = 3; }},
        {"local->mask", [](SmallCall &p) { p.local.mask = ATTILE_MASK_CAUSAL_TOP_LEFT; }},
        {"local->flags", [](SmallCall &p) { p.local.flags = ATTILE_FLAG_BATCH_INVARIANT; }},
        {"local->sinks",
         [](SmallCall &p) {
             const std::int64_t four = 4;
             attile_tensor_init(&p.local.sinks, two, ATTILE_F32, 1, &four);
             p.local.sinks.stride[0] = 0;
         }},
        {"local->allowed.dtype",
         [](SmallCall &p) {
             static std::uint8_t yes = 1;
             const std::int64_t one = 1;
             attile_tensor_init(&p.local.allowed, &yes, ATTILE_BOOL, 1, &one);
         }},
        {"their shards have", [](SmallCall &p) { p.local.k.shape[2] = p.local.v.shape[2] = 4; }},
    };
    for (const Change &change : changes) {
        const auto results = call_twice<SmallCall>(ranks(3), [&](Rank &rank, SmallCall &problem) {
            if (rank.rank == 2) change.make(problem);
        });
        for (const Result &result : results) {
            EXPECT_EQ(result.status, ATTILE_ERROR_RANKS_DISAGREE) << change.name << ": " << result.why;
            EXPECT_NE(result.why.find(change.name), std::string::npos) << result.why;
            if (std::string(change.name) != "their shards have") {
                EXPECT_NE(result.why.find("on rank 2 and"), std::string::npos) << result.why;
            }
            EXPECT_EQ(result.afterwards, ATTILE_ERROR_COMM_BROKEN);
            EXPECT_NE(result.why_afterwards.find(change.name), std::string::npos) << result.why_afterwards;
        }
    }
}

TEST_P(Faults, ContentsThatMustBeTheSameAreCompared) {
    static float slopes[2][4] = {{1, 2, 3, 4}, {1, 2, 3, 5}};
    const auto results = call_twice<SmallCall>(ranks(2), [&](Rank &rank, SmallCall &problem) {
        const std::int64_t four = 4;
        attile_tensor_init(&problem.local.alibi_slopes, slopes[rank.rank], ATTILE_F32, 1, &four);
    });
    for (const Result &result : results) {
        EXPECT_EQ(result.status, ATTILE_ERROR_RANKS_DISAGREE);
        EXPECT_NE(result.why.find("local->alibi_slopes is contents with hash"), std::string::npos) << result.why;
    }
}

TEST_P(Faults, ARankWithWrongArgumentsIsHeardOf) {
    const auto results = call_twice<SmallCall>(ranks(4), [](Rank &rank, SmallCall &problem) {
        if (rank.rank == 1) problem.local.mask = 99;
    });
    for (std::size_t rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(results[rank].status, rank == 1 ? ATTILE_ERROR_INVALID_VALUE : ATTILE_ERROR_RANK_FAILED);
        EXPECT_NE(results[rank].why.find("mask is 99"), std::string::npos) << results[rank].why;
        if (rank != 1) {
            EXPECT_NE(results[rank].why.find("rank 1 failed with ATTILE_ERROR_INVALID_VALUE"), std::string::npos);
        }
        EXPECT_EQ(results[rank].afterwards, ATTILE_ERROR_COMM_BROKEN);
    }
}

TEST_P(Faults, WhatNoRankCanDoBreaksNothing) {
    const auto results = call_twice<SmallCall>(ranks(3), [](Rank &rank, SmallCall &problem) { problem.local.mask = 90 + rank.rank; });
    for (std::size_t rank = 0; rank < 3; ++rank) {
        EXPECT_EQ(results[rank].status, ATTILE_ERROR_INVALID_VALUE);
        EXPECT_NE(results[rank].why.find("mask is 9" + std::to_string(rank)), std::string::npos) << results[rank].why;
        EXPECT_EQ(results[rank].afterwards, ATTILE_OK) << results[rank].why_afterwards;
    }
}

// The context of one rank is gone: its local call fails after all ranks have agreed.
TEST_P(Faults, ALocalFailureIsHeardOf) {
    for (int method = ATTILE_METHOD_RING; method <= ATTILE_METHOD_ALL_TO_ALL; ++method) {
        const auto results = call_twice<SmallCall>(ranks(4), [&](Rank &rank, SmallCall &problem) {
            problem.args.method = method;
            if (rank.rank == 2) attile_context_destroy(rank.context);
        });
        for (std::size_t rank = 0; rank < 4; ++rank) {
            EXPECT_EQ(results[rank].status, rank == 2 ? ATTILE_ERROR_INVALID_CONTEXT : ATTILE_ERROR_RANK_FAILED) << results[rank].why;
            EXPECT_NE(results[rank].why.find("was destroyed"), std::string::npos) << results[rank].why;
            if (rank != 2) {
                EXPECT_NE(results[rank].why.find("rank 2 failed"), std::string::npos) << results[rank].why;
            }
            EXPECT_EQ(results[rank].afterwards, ATTILE_ERROR_COMM_BROKEN);
        }
    }
}

TEST_P(Faults, ALateRankIsNamed) {
    std::atomic<int> given_up{0};
    const auto begin = std::chrono::steady_clock::now();
    const auto results = call_twice<SmallCall>(ranks(3, 0.3), [&](Rank &rank, SmallCall &) {
        if (rank.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(900));
        ++given_up;
    });
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
    int late = 0;
    for (const std::size_t rank : {0U, 2U}) {
        // Of two that wait, one is the first whose time is over; the other may hear of it.
        const Result &result = results[rank];
        EXPECT_TRUE(result.status == ATTILE_ERROR_RANK_LATE || result.status == ATTILE_ERROR_RANK_FAILED ||
                    result.status == ATTILE_ERROR_TRANSPORT)
            << result.status << result.why;
        late += result.status == ATTILE_ERROR_RANK_LATE ? 1 : 0;
        if (result.status == ATTILE_ERROR_RANK_LATE && GetParam() != Kind::kCallbacks) {
            EXPECT_NE(result.why.find("rank 1 did not come within 0.3 s"), std::string::npos) << result.why;
        }
        EXPECT_EQ(result.afterwards, ATTILE_ERROR_COMM_BROKEN);
        EXPECT_FALSE(result.why_afterwards.empty());
    }
    EXPECT_GE(late, 1);
    EXPECT_NE(results[1].status, ATTILE_OK);
    EXPECT_EQ(results[1].afterwards, ATTILE_ERROR_COMM_BROKEN);
}

TEST_P(Faults, ARankThatLeavesDoesNotHangTheOthers) {
    std::vector<std::int32_t> statuses(3, -1);
    std::vector<std::string> why(3);
    run_ranks(ranks(3, GetParam() == Kind::kThreads ? 60 : 0.5), [&](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        if (rank.rank == 2) {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the others wait by now
            attile_comm_destroy(rank.comm);
            return;
        }
        SmallCall problem(3);
        const std::size_t at = static_cast<std::size_t>(rank.rank);
        statuses[at] = attile_attention_distributed(rank.comm, &problem.args);
        why[at] = last_error();
    });
    for (std::size_t rank = 0; rank < 2; ++rank) {
        EXPECT_TRUE(statuses[rank] == ATTILE_ERROR_RANK_FAILED || GetParam() != Kind::kThreads) << statuses[rank] << why[rank];
        EXPECT_EQ(statuses[rank] / 1000, 6) << why[rank];
        if (GetParam() == Kind::kThreads) {
            EXPECT_NE(why[rank].find("rank 2 destroyed its communicator"), std::string::npos) << why[rank];
        }
    }
}

TEST_P(Faults, NoMemoryOnOneRank) {
    for (int method = ATTILE_METHOD_RING; method <= ATTILE_METHOD_ALL_TO_ALL; ++method)
        expect_failures_of_memory<SmallCall>([&] { return ranks(3); }, [&](SmallCall &call) { call.args.method = method; });
}

INSTANTIATE_TEST_SUITE_P(Transports, Faults, testing::Values(Kind::kThreads, Kind::kCallbacks, Kind::kBareCallbacks), name_of);

TEST(MixedBackends, AreRefusedUnlessAllowed) {
    if (!opens("cpu")) GTEST_SKIP() << "there is no second backend";
    RanksOptions ranks;
    ranks.backends = {"reference", "cpu"};
    run_ranks(ranks, [](Rank &rank) {
        EXPECT_EQ(rank.created, ATTILE_ERROR_RANKS_DISAGREE);
        EXPECT_NE(rank.why.find("the backend"), std::string::npos) << rank.why;
    });
    ranks.flags = ATTILE_COMM_ALLOW_MIXED_BACKENDS;
    run_ranks(ranks, [](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        SmallCall problem(2);
        EXPECT_EQ(attile_attention_distributed(rank.comm, &problem.args), ATTILE_OK) << last_error();
    });
}

}  // namespace
}  // namespace attile::test
