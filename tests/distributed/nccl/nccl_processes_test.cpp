// SPDX-License-Identifier: Apache-2.0
// Ranks of NCCL that are processes: this program starts itself, once for each rank. Each rank judges its own part.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "nccl_ranks.h"
#include "options.h"
#include "sharded_attention.h"

extern "C" char **environ;

namespace attile::test {
namespace {

constexpr const char *kRank = "ATTILE_NCCL_RANK", *kRanks = "ATTILE_NCCL_RANKS", *kId = "ATTILE_NCCL_ID";

std::string hexadecimal(const ncclUniqueId &id) {
    std::string text;
    char digits[3];
    for (const char byte : id.internal) {
        std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
        text += digits;
    }
    return text;
}

ncclUniqueId unique_id(const std::string &text) {
    ncclUniqueId id{};
    for (std::size_t i = 0; i < sizeof id.internal && 2 * i < text.size(); ++i) {
        id.internal[i] = static_cast<char>(std::strtoul(text.substr(2 * i, 2).c_str(), nullptr, 16));
    }
    return id;
}

// One rank; run by the test below.
TEST(NcclProcess, DISABLED_Rank) {
    const Nccl &nccl = Nccl::instance();
    ShardedRun run;
    run.ranks = std::atoi(std::getenv(kRanks));
    RankOfCase own;
    own.rank = std::atoi(std::getenv(kRank));
    own.context = open_context(device_of_rank(0));  // the only one that it sees
    own.placement = Placement::kDevice;
    ncclComm_t parent = nullptr;
    ASSERT_EQ(nccl.function<attile_nccl_init_rank_fn>("ncclCommInitRank")(&parent, run.ranks, unique_id(std::getenv(kId)), own.rank), 0);
    attile_comm_options options;
    attile_comm_options_init(&options, sizeof options);
    options.kind = "nccl";
    options.communicator = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(parent));
    options.timeout_seconds = 60;
    ASSERT_EQ(attile_comm_create(own.context, &options, &own.comm), ATTILE_OK) << last_error();
    const ShardedCase one(case_of(attile::test::options()[2], ATTILE_BF16));
    for (const int method : {ATTILE_METHOD_RING, ATTILE_METHOD_ALL_GATHER, ATTILE_METHOD_ALL_TO_ALL, ATTILE_METHOD_TREE}) {
        run.method = method;
        run.layout = method % 3;
        run.replicated = method == ATTILE_METHOD_TREE;
        std::vector<ResultsOfRank> results(static_cast<std::size_t>(run.ranks));
        ResultsOfRank &mine = results[static_cast<std::size_t>(own.rank)];
        one.run(own, run, &mine);
        EXPECT_EQ(mine.failure, "") << describe(run);
        EXPECT_FALSE(mine.outputs.empty());
        EXPECT_EQ(one.judge(run, results).message, "") << describe(run) << ": " << one.text();
    }
    attile_comm_destroy(own.comm);
    EXPECT_EQ(nccl.function<attile_nccl_end_fn>("ncclCommDestroy")(parent), 0);
    attile_context_destroy(own.context);
}

TEST(NcclProcesses, AreRanks) {
    for (const int ranks : {2, 4}) {
        ATTILE_SKIP_WITHOUT_DEVICES(ranks);
        ncclUniqueId id;
        ASSERT_EQ(Nccl::instance().function<attile_nccl_unique_id_fn>("ncclGetUniqueId")(&id), 0);
        setenv(kRanks, std::to_string(ranks).c_str(), 1);
        setenv(kId, hexadecimal(id).c_str(), 1);
        std::vector<pid_t> children;
        for (int rank = 0; rank < ranks; ++rank) {
            setenv(kRank, std::to_string(rank).c_str(), 1);
            setenv("CUDA_VISIBLE_DEVICES", std::to_string(rank).c_str(), 1);
            std::string program = "/proc/self/exe", filter = "--gtest_filter=NcclProcess.DISABLED_Rank",
                        also = "--gtest_also_run_disabled_tests";
            char *arguments[] = {program.data(), filter.data(), also.data(), nullptr};
            pid_t child = 0;
            ASSERT_EQ(posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ), 0);
            children.push_back(child);
        }
        unsetenv("CUDA_VISIBLE_DEVICES");
        for (const pid_t child : children) {
            int status = -1;
            EXPECT_EQ(waitpid(child, &status, 0), child);
            EXPECT_EQ(status, 0) << "of " << ranks << " ranks";
        }
    }
}

}  // namespace
}  // namespace attile::test
