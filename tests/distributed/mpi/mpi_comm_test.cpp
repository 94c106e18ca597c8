// SPDX-License-Identifier: Apache-2.0
// Joining over MPI: which communicator, which rank, when MPI can be used and when not, and that the program's own MPI stays as it was.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "mpi_rank.h"
#include "two_calls.h"

namespace attile::test {
namespace {

void expect_refused(const attile_comm_options &options, std::int32_t status, const std::string &words) {
    const MpiRank rank("reference", options);
    EXPECT_EQ(const_cast<MpiRank &>(rank).rank().created, status) << words;
    const std::string why = const_cast<MpiRank &>(rank).rank().why;
    EXPECT_NE(why.find(words), std::string::npos) << why;
}

std::string report() {
    std::string text(static_cast<std::size_t>(attile_backend_report(nullptr, 0)), '\0');
    attile_backend_report(text.data(), static_cast<std::int64_t>(text.size()));
    return text;
}

TEST(Handles, OfFortran) {
    MPI_Comm half = MPI_COMM_NULL, twin = MPI_COMM_NULL;
    const int color = world_rank() % 2;
    MPI_Comm_split(MPI_COMM_WORLD, color, -world_rank(), &half);  // in the other order
    MPI_Comm_dup(half, &twin);
    int rank = 0, ranks = 0;
    MPI_Comm_rank(half, &rank);
    MPI_Comm_size(half, &ranks);
    attile_comm_options options = mpi_options();
    options.communicator = MPI_Comm_c2f(half);
    MpiRank one("reference", options);
    options.communicator = MPI_Comm_c2f(twin);
    options.rank = rank;
    options.ranks = ranks;
    MpiRank other("reference", options);
    MPI_Comm_free(&half);  // it has its own
    MPI_Comm_free(&twin);
    for (MpiRank *each : {&one, &other, &one}) {
        ASSERT_EQ(each->rank().created, ATTILE_OK) << each->rank().why;
        EXPECT_EQ(each->rank().rank, rank);
        std::int32_t first = -1, second = -1;
        std::string why;
        each->call([](SmallCall &) {}, &first, &why, &second);
        EXPECT_EQ(first, ATTILE_OK) << why;
        EXPECT_EQ(second, ATTILE_OK);
    }
    EXPECT_NE(report().find("transport mpi_"), std::string::npos) << report();
    EXPECT_NE(report().find(": chosen: version"), std::string::npos) << report();
}

TEST(Handles, ThatAreNone) {
    attile_comm_options options = mpi_options(1);
    options.communicator = MPI_Comm_c2f(MPI_COMM_NULL);
    expect_refused(options, ATTILE_ERROR_INVALID_VALUE, "which is not a communicator");
    for (const std::int64_t none : {std::int64_t{-77}, std::int64_t{123456}, std::int64_t{0x7fffffff}}) {
        options.communicator = none;
        expect_refused(options, ATTILE_ERROR_INVALID_VALUE,
                       "options->communicator is " + std::to_string(none) + ", which is not a communicator");
    }
    options.communicator = std::int64_t{1} << 40;
    expect_refused(options, ATTILE_ERROR_INVALID_VALUE, "not an integer of Fortran");
    // Two groups of ranks.
    MPI_Comm half = MPI_COMM_NULL, both = MPI_COMM_NULL;
    const int color = world_rank() == 0 ? 0 : 1;
    MPI_Comm_split(MPI_COMM_WORLD, color, world_rank(), &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, color == 0 ? 1 : 0, 3, &both);
    options.communicator = MPI_Comm_c2f(both);
    expect_refused(options, ATTILE_ERROR_INVALID_VALUE, "an inter-communicator");
    MPI_Comm_free(&both);
    MPI_Comm_free(&half);
}

TEST(Ranks, HaveToBeThoseOfMpi) {
    attile_comm_options options = mpi_options(1);
    options.ranks = world_ranks() + 1;
    expect_refused(options, ATTILE_ERROR_INVALID_VALUE, "of MPI's communicator this is rank " + std::to_string(world_rank()) + " of");
    options.ranks = world_ranks();
    options.rank = (world_rank() + 1) % world_ranks();
    expect_refused(options, ATTILE_ERROR_INVALID_VALUE, "expected these or 0 and 0");
    options.rank = 70000;
    options.ranks = 0;
    expect_refused(options, ATTILE_ERROR_INVALID_VALUE, "options->rank is 70000");
}

// The program's own handlers of errors are there afterwards, and its messages are not mixed with others.
TEST(Program, KeepsItsOwnMpi) {
    MPI_Errhandler world = MPI_ERRHANDLER_NULL, self = MPI_ERRHANDLER_NULL;
    MpiRank rank;
    ASSERT_EQ(rank.rank().created, ATTILE_OK) << rank.rank().why;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &world);
    MPI_Comm_get_errhandler(MPI_COMM_SELF, &self);
    EXPECT_TRUE(world == MPI_ERRORS_ARE_FATAL);
    EXPECT_TRUE(self == MPI_ERRORS_ARE_FATAL);
    int from_any = -1;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Irecv(&from_any, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
    std::int32_t first = -1, second = -1;
    std::string why;
    rank.call([](SmallCall &) {}, &first, &why, &second);
    EXPECT_EQ(first, ATTILE_OK) << why;
    const int value = 42;
    MPI_Send(&value, 1, MPI_INT, (world_rank() + 1) % world_ranks(), 0, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    EXPECT_EQ(from_any, 42);
}

TEST(Environment, NamesTheKind) {
    setenv("ATTILE_COMM", "mpi", 1);
    attile_comm_options options = mpi_options();
    options.kind = nullptr;
    {
        MpiRank rank("reference", options);
        EXPECT_EQ(rank.rank().created, ATTILE_OK) << rank.rank().why;
    }
    unsetenv("ATTILE_COMM");
}

// All call, but one when the time of the others is over.
TEST(Joining, TakesAsLongAsTheTimeLimit) {
    MPI_Comm twin = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    attile_comm_options options = mpi_options(0.4);
    options.communicator = MPI_Comm_c2f(twin);
    if (world_rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1000));
    expect_refused(options, ATTILE_ERROR_RANK_LATE, "within 0.4 s not all ranks of the MPI communicator came");
    MPI_Barrier(MPI_COMM_WORLD);
    MpiRank rank;
    EXPECT_EQ(rank.rank().created, ATTILE_OK) << rank.rank().why;
}

TEST(Levels, SingleIsRefused) {
    expect_refused(mpi_options(), ATTILE_ERROR_BACKEND_REFUSED,
                   "MPI was initialised with MPI_THREAD_SINGLE; expected at least MPI_THREAD_FUNNELED");
}

TEST(Levels, FunneledIsForTheMainThread) {
    int level = 0;
    MPI_Query_thread(&level);
    if (level != MPI_THREAD_FUNNELED) GTEST_SKIP() << "MPI gave more than it was asked for";
    std::thread([] { expect_refused(mpi_options(), ATTILE_ERROR_BACKEND_REFUSED, "MPI was initialised with MPI_THREAD_FUNNELED"); }).join();
}

TEST(Levels, MultipleIsForSeveralAtOnce) {
    int level = 0;
    MPI_Query_thread(&level);
    if (level != MPI_THREAD_MULTIPLE) GTEST_SKIP() << "this MPI has no threads";
    MPI_Comm twins[2];
    for (MPI_Comm &twin : twins) MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    std::vector<std::thread> threads;
    for (MPI_Comm &twin : twins) {
        threads.emplace_back([&] {
            attile_comm_options options = mpi_options();
            options.communicator = MPI_Comm_c2f(twin);
            MpiRank rank("reference", options);
            ASSERT_EQ(rank.rank().created, ATTILE_OK) << rank.rank().why;
            for (int i = 0; i < 20; ++i) {
                std::int32_t first = -1, second = -1;
                std::string why;
                rank.call([](SmallCall &) {}, &first, &why, &second);
                EXPECT_EQ(first, ATTILE_OK) << why;
            }
        });
    }
    for (std::thread &thread : threads) thread.join();
}

// By itself, without a launcher.
TEST(Life, OfMpiAndOfACommunicator) {
    expect_refused(mpi_options(), ATTILE_ERROR_BACKEND_REFUSED, "the program has not initialised MPI");
    EXPECT_NE(report().find("refused, ATTILE_ERROR_BACKEND_REFUSED: the program has not initialised MPI"), std::string::npos) << report();
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    MpiRank left;
    std::int32_t first = -1, second = -1;
    std::string why;
    {
        MpiRank rank;
        ASSERT_EQ(rank.rank().created, ATTILE_OK) << rank.rank().why;
        rank.call([](SmallCall &) {}, &first, &why, &second);
        EXPECT_EQ(first, ATTILE_OK) << why;
    }
    MPI_Finalize();
    expect_refused(mpi_options(), ATTILE_ERROR_BACKEND_REFUSED, "the program has ended MPI");
}

}  // namespace
}  // namespace attile::test
