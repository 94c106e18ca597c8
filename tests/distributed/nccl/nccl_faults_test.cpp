// SPDX-License-Identifier: Apache-2.0
// Ranks of NCCL that fail, are late, or come with a communicator that does not fit: a status on every rank within the time limit.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "nccl_ranks.h"
#include "two_calls.h"

namespace attile::test {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// What each rank's creation came to.
std::vector<Rank> create(const RanksOptions &options) {
    std::vector<Rank> ranks(static_cast<std::size_t>(options.ranks));
    run_ranks(options, [&](Rank &rank) { ranks[static_cast<std::size_t>(rank.rank)] = rank; });
    return ranks;
}

void expect_words(const std::string &text, const std::string &words) { EXPECT_NE(text.find(words), std::string::npos) << text; }

// No communicator of NCCL's is left, whatever went wrong.
class NcclTest : public testing::Test {
  protected:
    void TearDown() override {
        if (!Nccl::instance().is_stand_in()) return;
        EXPECT_EQ(Nccl::instance().function<attile_stand_in_alive_fn>("attile_stand_in_alive")(), 0);
    }
};
class NcclComm : public NcclTest {};
class NcclJoining : public NcclTest {};
class NcclFaults : public NcclTest {};

TEST_F(NcclComm, KnowsItsRankAndRanks) {
    ATTILE_SKIP_WITHOUT_DEVICES(3);
    const NcclComms comms(3);
    RanksOptions options = ranks_of(comms, 3);
    options.join = [&](int rank, attile_comm_options *one) {
        comms.join(rank, one);
        if (rank == 1) one->rank = 1, one->ranks = 3;  // what it is may be said
    };
    run_ranks(options, [&](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        attile_comm_info info;
        attile_comm_info_init(&info, sizeof info);
        ASSERT_EQ(attile_comm_get_info(rank.comm, &info), ATTILE_OK);
        EXPECT_STREQ(info.kind, "nccl");
        EXPECT_EQ(info.rank, rank.rank);
        EXPECT_EQ(info.ranks, 3);
        EXPECT_EQ(info.timeout_seconds, 60);
        SmallCall call(3);
        EXPECT_EQ(call.call(rank.comm), ATTILE_OK) << last_error();
    });
}

// One after the other, and two at once, from one communicator of the caller's.
TEST_F(NcclComm, IsMadeAnewFromTheSameCommunicator) {
    ATTILE_SKIP_WITHOUT_DEVICES(2);
    const NcclComms comms(2);
    for (int time = 0; time < 3; ++time) {
        run_ranks(ranks_of(comms, 2), [&](Rank &rank) {
            ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
            attile_comm_options options;
            attile_comm_options_init(&options, sizeof options);
            comms.join(rank.rank, &options);
            attile_comm *second = nullptr;
            ASSERT_EQ(attile_comm_create(rank.context, &options, &second), ATTILE_OK) << last_error();
            SmallTree call(2);
            EXPECT_EQ(call.call(second), ATTILE_OK) << last_error();
            EXPECT_EQ(call.call(rank.comm), ATTILE_OK) << last_error();
            attile_comm_destroy(second);
        });
    }
}

struct Misfit {
    std::function<void(attile_comm_options *)> make;
    std::int32_t status;
    const char *words;
};

TEST_F(NcclJoining, AMisfitIsAStatusOnEveryRank) {
    ATTILE_SKIP_WITHOUT_DEVICES(3);
    const Misfit misfits[] = {
        {[](attile_comm_options *one) { one->rank = 0, one->ranks = 3; }, ATTILE_ERROR_INVALID_VALUE,
         "options->rank is 0 and options->ranks 3, and of the communicator this is rank 1 of 3"},
        {[](attile_comm_options *one) { one->rank = 1, one->ranks = 2; }, ATTILE_ERROR_INVALID_VALUE,
         "options->rank is 1 and options->ranks 2, and of the communicator this is rank 1 of 3"},
    };
    for (const Misfit &misfit : misfits) {
        const NcclComms comms(3);
        RanksOptions options = ranks_of(comms, 3);
        options.join = [&](int rank, attile_comm_options *one) {
            comms.join(rank, one);
            if (rank == 1) misfit.make(one);
        };
        const Clock::time_point begin = Clock::now();
        for (const Rank &rank : create(options)) {
            EXPECT_EQ(rank.created, rank.rank == 1 ? misfit.status : ATTILE_ERROR_RANK_FAILED) << rank.why;
            expect_words(rank.why, rank.rank == 1 ? misfit.words : "1 of 3 ranks of the communicator did not join");
        }
        EXPECT_LT(seconds_since(begin), 20);
    }
}

TEST_F(NcclJoining, AnotherDeviceIsAStatusOnEveryRank) {
    if (!Nccl::instance().is_stand_in()) GTEST_SKIP() << "the communicators of NCCL here are on the devices of the contexts";
    const NcclComms comms(2, {0, 5});
    for (const Rank &rank : create(ranks_of(comms, 2))) {
        EXPECT_EQ(rank.created, rank.rank == 1 ? ATTILE_ERROR_INVALID_VALUE : ATTILE_ERROR_RANK_FAILED) << rank.why;
        expect_words(rank.why, rank.rank == 1 ? "options->communicator is on device 5, and the context on device 0"
                                              : "1 of 2 ranks of the communicator did not join");
    }
}

TEST_F(NcclJoining, WantsACommunicator) {
    const NcclComms comms(1);
    RanksOptions options = ranks_of(comms, 1);
    options.join = [&](int rank, attile_comm_options *one) {
        comms.join(rank, one);
        one->communicator = 0;
    };
    const std::vector<Rank> ranks = create(options);
    EXPECT_EQ(ranks[0].created, ATTILE_ERROR_INVALID_VALUE);
    expect_words(ranks[0].why, "options->communicator is 0; expected an ncclComm_t");
}

TEST_F(NcclJoining, WantsAGpu) {
    const NcclComms comms(1);
    RanksOptions options = ranks_of(comms, 1);
    options.backends = {"reference"};
    const std::vector<Rank> ranks = create(options);
    EXPECT_EQ(ranks[0].created, ATTILE_ERROR_BACKEND_REFUSED);
    expect_words(ranks[0].why, "the context's device is of type 1; expected CUDA (2, by NCCL) or ROCm (10, by RCCL)");
}

// The rank that came tells after its time; what NCCL does meanwhile ends when the program aborts its communicator.
TEST_F(NcclJoining, ARankThatNeverComesIsLate) {
    ATTILE_SKIP_WITHOUT_DEVICES(2);
    NcclComms comms(2);
    attile_context *context = open_context(device_of_rank(0));
    attile_comm_options options;
    attile_comm_options_init(&options, sizeof options);
    comms.join(0, &options);
    options.timeout_seconds = 0.3;
    attile_comm *comm = nullptr;
    const Clock::time_point begin = Clock::now();
    EXPECT_EQ(attile_comm_create(context, &options, &comm), ATTILE_ERROR_RANK_LATE);
    EXPECT_LT(seconds_since(begin), 20);
    expect_words(last_error(), "within 0.3 s not all ranks of the NCCL communicator came; this is rank 0 of 2");
    attile_context_destroy(context);
    comms.abort();
}

TEST_F(NcclFaults, ARankThatMakesNoCallIsLate) {
    ATTILE_SKIP_WITHOUT_DEVICES(3);
    const NcclComms comms(3);
    RanksOptions options = ranks_of(comms, 3);
    options.timeout = 0.5;
    const Clock::time_point begin = Clock::now();
    run_ranks(options, [&](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        if (rank.rank == 2) return;
        SmallCall call(3);
        EXPECT_EQ(call.call(rank.comm), ATTILE_ERROR_RANK_LATE) << last_error();
        expect_words(last_error(), "within 0.5 s not all of the ranks came that this one exchanges messages with in a step");
        EXPECT_EQ(call.call(rank.comm), ATTILE_ERROR_COMM_BROKEN);
    });
    EXPECT_LT(seconds_since(begin), 30);
}

// In any of the groups of a call.
TEST_F(NcclFaults, AnErrorOfNcclIsAStatusOnEveryRank) {
    if (!Nccl::instance().is_stand_in()) GTEST_SKIP() << "NCCL itself is not made to fail";
    const auto fail = Nccl::instance().function<attile_stand_in_fail_fn>("attile_stand_in_fail");
    for (int group = 2; group <= 6; ++group) {  // the first is that of joining
        const NcclComms comms(3);
        RanksOptions options = ranks_of(comms, 3);
        options.timeout = 0.5;
        fail(1, group, 6);
        const auto results = call_twice<SmallCall>(options, [](Rank &, SmallCall &) {});
        fail(-1, 0, 0);
        for (std::size_t rank = 0; rank < results.size(); ++rank) {
            const Result &result = results[rank];
            EXPECT_NE(result.afterwards, ATTILE_OK) << "group " << group << ", rank " << rank;
            if (rank != 1) continue;
            EXPECT_EQ(result.status, ATTILE_ERROR_TRANSPORT) << "group " << group << ": " << result.why;
            expect_words(result.why, "a message failed: a remote process failed: words of the stand-in");
            EXPECT_EQ(result.afterwards, ATTILE_ERROR_COMM_BROKEN);
        }
    }
}

TEST_F(NcclFaults, ARanksOwnFailureReachesAll) {
    ATTILE_SKIP_WITHOUT_DEVICES(3);
    const NcclComms comms(3);
    const auto results = call_twice<SmallCall>(ranks_of(comms, 3), [](Rank &rank, SmallCall &call) {
        if (rank.rank == 1) call.local.k.shape[3] = 7;
    });
    for (std::size_t rank = 0; rank < results.size(); ++rank) {
        EXPECT_EQ(results[rank].status, rank == 1 ? ATTILE_ERROR_SHAPE_MISMATCH : ATTILE_ERROR_RANK_FAILED) << results[rank].why;
        EXPECT_EQ(results[rank].afterwards, ATTILE_ERROR_COMM_BROKEN);
    }
}

TEST_F(NcclFaults, ARankWithoutDeviceMemoryIsAStatusOnAll) {
    if (!Nccl::instance().is_stand_in()) GTEST_SKIP() << "all of a GPU's memory is not taken here";
    setenv("ATTILE_EMULATED_CAPACITY", "1000000", 1);
    const NcclComms comms(3);
    run_ranks(ranks_of(comms, 3), [&](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        SmallCall call(3);
        for (attile_tensor *tensor : {&call.local.q, &call.local.k, &call.local.v, &call.local.o}) {
            ASSERT_EQ(attile_alloc(rank.context, ATTILE_MEMORY_DEVICE, 4096, &tensor->data), ATTILE_OK) << last_error();
        }
        void *memory = nullptr;
        for (std::int64_t bytes = 4096; bytes >= 16 && rank.rank == 1; bytes /= 16) {
            while (attile_alloc(rank.context, ATTILE_MEMORY_DEVICE, bytes, &memory) == ATTILE_OK) continue;
        }
        EXPECT_EQ(call.call(rank.comm), rank.rank == 1 ? ATTILE_ERROR_OUT_OF_DEVICE_MEMORY : ATTILE_ERROR_RANK_FAILED) << last_error();
        expect_words(last_error(), rank.rank == 1 ? "attention_distributed: no device memory for "
                                                  : "rank 1 failed with ATTILE_ERROR_OUT_OF_DEVICE_MEMORY");
        EXPECT_EQ(call.call(rank.comm), ATTILE_ERROR_COMM_BROKEN);
    });
    unsetenv("ATTILE_EMULATED_CAPACITY");
}

// It was never aborted: ranks join again by it.
TEST_F(NcclFaults, LeaveTheCallersCommunicatorAsItIs) {
    ATTILE_SKIP_WITHOUT_DEVICES(3);
    const NcclComms comms(3);
    RanksOptions options = ranks_of(comms, 3);
    options.timeout = 0.3;
    run_ranks(options, [&](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        SmallCall call(3);
        if (rank.rank == 2) return;
        EXPECT_EQ(call.call(rank.comm), ATTILE_ERROR_RANK_LATE) << last_error();
    });
    run_ranks(ranks_of(comms, 3), [&](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        SmallCall call(3);
        EXPECT_EQ(call.call(rank.comm), ATTILE_OK) << last_error();
    });
}

TEST_F(NcclFaults, DestroyingEndsACallOfAnotherThread) {
    ATTILE_SKIP_WITHOUT_DEVICES(2);
    const NcclComms comms(2);
    const Clock::time_point begin = Clock::now();
    run_ranks(ranks_of(comms, 2), [&](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        if (rank.rank == 1) return;
        std::thread other([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(200));
            attile_comm_destroy(rank.comm);
        });
        SmallCall call(2);
        EXPECT_EQ(call.call(rank.comm), ATTILE_ERROR_RANK_FAILED) << last_error();
        expect_words(last_error(), "this rank gave up while its messages were under way");
        other.join();
    });
    EXPECT_LT(seconds_since(begin), 30);
}

TEST_F(NcclFaults, ADestroyedCommunicatorIsLateForTheOthers) {
    ATTILE_SKIP_WITHOUT_DEVICES(2);
    const NcclComms comms(2);
    RanksOptions options = ranks_of(comms, 2);
    options.timeout = 0.5;
    run_ranks(options, [&](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        if (rank.rank == 1) {
            attile_comm_destroy(rank.comm);
            return;
        }
        SmallCall call(2);
        EXPECT_EQ(call.call(rank.comm), ATTILE_ERROR_RANK_LATE) << last_error();
    });
}

}  // namespace
}  // namespace attile::test
