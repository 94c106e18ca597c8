// SPDX-License-Identifier: Apache-2.0
// Ranks of MPI that disagree, fail, are late, leave or die: a status on every rank within the time limit, and MPI can be used afterwards.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include "mpi_rank.h"
#include "two_calls.h"

namespace attile::test {
namespace {

constexpr std::chrono::milliseconds kSoon{15000};

class Faults : public testing::Test {
  protected:
    // Each begins when all are there, and ends with MPI in order.
    Faults() { MPI_Barrier(MPI_COMM_WORLD); }
    ~Faults() override {
        MPI_Barrier(MPI_COMM_WORLD);
        MpiRank fresh;
        EXPECT_EQ(fresh.rank().created, ATTILE_OK) << fresh.rank().why;
        if (fresh.comm() != nullptr) {
            EXPECT_EQ(call(fresh, [](SmallCall &) {}), ATTILE_OK) << why_;
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }

    std::int32_t call(MpiRank &rank, const std::function<void(SmallCall &)> &prepare) {
        const auto begin = std::chrono::steady_clock::now();
        std::int32_t first = -1;
        rank.call(prepare, &first, &why_, &second_);
        EXPECT_LT(std::chrono::steady_clock::now() - begin, kSoon);
        return first;
    }

    std::string why_;
    std::int32_t second_ = -1;
};

TEST_F(Faults, OtherArgumentsAreNamed) {
    MpiRank rank;
    ASSERT_EQ(rank.rank().created, ATTILE_OK) << rank.rank().why;
    const int last = world_ranks() - 1;
    EXPECT_EQ(call(rank,
                   [&](SmallCall &problem) {
                       if (world_rank() == last) problem.args.layout = ATTILE_SHARDS_STRIPED;
                   }),
              ATTILE_ERROR_RANKS_DISAGREE);
    EXPECT_NE(why_.find("layout is 2 on rank " + std::to_string(last)), std::string::npos) << why_;
    EXPECT_EQ(second_, ATTILE_ERROR_COMM_BROKEN);
}

TEST_F(Faults, WrongArgumentsOfOneAreHeardOf) {
    MpiRank rank;
    ASSERT_EQ(rank.rank().created, ATTILE_OK) << rank.rank().why;
    const std::int32_t expected = world_rank() == 1 ? ATTILE_ERROR_INVALID_VALUE : ATTILE_ERROR_RANK_FAILED;
    EXPECT_EQ(call(rank,
                   [&](SmallCall &problem) {
                       if (world_rank() == 1) problem.local.mask = 99;
                   }),
              expected);
    EXPECT_NE(why_.find("mask is 99"), std::string::npos) << why_;
    EXPECT_EQ(second_, ATTILE_ERROR_COMM_BROKEN);
}

TEST_F(Faults, AFailureOfOneIsHeardOf) {
    MpiRank rank;
    ASSERT_EQ(rank.rank().created, ATTILE_OK) << rank.rank().why;
    const std::int32_t expected = world_rank() == 1 ? ATTILE_ERROR_INVALID_CONTEXT : ATTILE_ERROR_RANK_FAILED;
    EXPECT_EQ(call(rank,
                   [&](SmallCall &) {
                       if (world_rank() == 1) attile_context_destroy(rank.rank().context);
                   }),
              expected)
        << why_;
}

// Of the others the first whose time is over says so, and the rest hear it from that one.
TEST_F(Faults, ALateRankIsNamed) {
    MpiRank rank("reference", mpi_options(0.8));
    ASSERT_EQ(rank.rank().created, ATTILE_OK) << rank.rank().why;
    MPI_Barrier(MPI_COMM_WORLD);
    const std::int32_t status = call(rank, [&](SmallCall &) {
        if (world_rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2000));
    });
    EXPECT_TRUE(status == ATTILE_ERROR_RANK_LATE || status == ATTILE_ERROR_RANK_FAILED) << status << why_;
    if (world_rank() != 1) {
        EXPECT_NE(why_.find("rank 1 did not come within 0.8 s"), std::string::npos) << why_;
    }
    EXPECT_EQ(second_, ATTILE_ERROR_COMM_BROKEN);
    const std::vector<std::int32_t> all = of_all(status);
    EXPECT_NE(std::count(all.begin(), all.end(), ATTILE_ERROR_RANK_LATE), 0);
}

TEST_F(Faults, ARankThatLeavesIsLate) {
    MpiRank rank("reference", mpi_options(0.8));
    ASSERT_EQ(rank.rank().created, ATTILE_OK) << rank.rank().why;
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank() == 1) {
        attile_comm_destroy(rank.comm());
        return;
    }
    const std::int32_t status = call(rank, [](SmallCall &) {});
    EXPECT_TRUE(status == ATTILE_ERROR_RANK_LATE || status == ATTILE_ERROR_RANK_FAILED) << status << why_;
}

TEST_F(Faults, ACommunicatorThatIsDestroyedDuringACallEndsIt) {
    MpiRank rank;
    ASSERT_EQ(rank.rank().created, ATTILE_OK) << rank.rank().why;
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank() == 1) {
        std::thread destroying([&] {  // which may not call MPI
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
            attile_comm_destroy(rank.comm());
        });
        EXPECT_EQ(call(rank, [](SmallCall &) {}), ATTILE_ERROR_RANK_FAILED) << why_;
        destroying.join();
        return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));  // the call of rank 1 waits for this one, on a busy machine too
    EXPECT_EQ(call(rank, [](SmallCall &) {}), ATTILE_ERROR_RANK_FAILED) << why_;
    EXPECT_NE(why_.find("its communicator was destroyed during a call"), std::string::npos) << why_;
}

// Rank 1 ends without a word. The launcher is told not to end all of them then; MPICH's sends them a signal, which would.
TEST(Death, IsAStatusOnTheOthers) {
    signal(SIGUSR1, SIG_IGN);
    MpiRank rank("reference", mpi_options(2));
    ASSERT_EQ(rank.rank().created, ATTILE_OK) << rank.rank().why;
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank() == 1) raise(SIGKILL);
    const auto begin = std::chrono::steady_clock::now();
    std::int32_t first = -1, second = -1;
    std::string why;
    rank.call([](SmallCall &) {}, &first, &why, &second);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    std::printf("rank %d after %s: %s, then %s (%s)\n", world_rank(), seconds < 5 ? "less than 5 s" : "TOO LONG", attile_status_name(first),
                attile_status_name(second), why.c_str());
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // what another has to say
    _exit(0);                                                     // MPI cannot be ended in order
}

}  // namespace
}  // namespace attile::test
