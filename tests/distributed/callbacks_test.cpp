// SPDX-License-Identifier: Apache-2.0
// Functions of the program's that fail, throw, lose messages or end their thread, and ranks that make different calls.
#include <gtest/gtest.h>
#include <pthread.h>

#include <string>

#include "two_calls.h"

namespace attile::test {
namespace {

TEST(Callbacks, ThatFailOrThrowAreAStatus) {
    for (const bool throws : {false, true}) {
        // 4 functions to agree, 4 to say that all is well, 8 for the ring, 4 at the end.
        for (int from = 0; from < 20; ++from) {
            MailOptions options;
            options.collectives = false;
            options.broken_rank = 1;
            options.broken_from = from + 4;  // after the greeting
            options.throws = throws;
            Mail mail(3, options);
            RanksOptions ranks;
            ranks.ranks = 3;
            ranks.timeout = 5;
            ranks.mail = &mail;
            const auto results = call_twice<SmallCall>(ranks, [](Rank &, SmallCall &) {});
            EXPECT_EQ(results[1].status, ATTILE_ERROR_TRANSPORT) << results[1].why;
            EXPECT_NE(results[1].why.find(throws ? "it threw an exception" : "it returned 5"), std::string::npos) << results[1].why;
            EXPECT_EQ(results[1].afterwards, ATTILE_ERROR_COMM_BROKEN);
            for (const std::size_t rank : {0U, 2U}) {
                // Who has heard of all the others by the end has its result, and learns of it at the next call.
                EXPECT_TRUE(results[rank].status / 1000 == 6 || (from >= 16 && results[rank].status == ATTILE_OK)) << results[rank].why;
                EXPECT_EQ(results[rank].afterwards / 1000, 6) << results[rank].why_afterwards;
            }
        }
    }
}

TEST(Callbacks, MessagesThatNeverArriveAreLate) {
    MailOptions options;
    options.lost_rank = 0;
    options.collectives = options.give_up = false;
    Mail mail(2, options);
    RanksOptions ranks;
    ranks.timeout = 0.2;
    ranks.mail = &mail;
    run_ranks(ranks, [](Rank &rank) {
        EXPECT_EQ(rank.created, ATTILE_ERROR_RANK_LATE);
        EXPECT_NE(rank.why.find(rank.rank == 0 ? "rank 1" : "rank 0"), std::string::npos) << rank.why;
        EXPECT_EQ(rank.comm, nullptr);
    });
}

// A function of the program's ends the thread in the middle of a call, at each place where one is called in its own run: the others hear of
// it, and nothing is written to memory that is gone.
class EndedThread : public testing::TestWithParam<Kind> {
  protected:
    static thread_local int calls_left;
    static void count() {
        if (calls_left > 0 && --calls_left == 0) pthread_exit(nullptr);
    }
    static std::int32_t wait(void *user, void *request, double seconds) {
        if (seconds > 0 && calls_left == 1) {
            (void)wait_of_mail(user, request, 0);  // a request is over whatever becomes of it
            count();
        }
        if (seconds > 0 && calls_left > 0) --calls_left;
        return wait_of_mail(user, request, seconds);
    }
    static std::int32_t (*wait_of_mail)(void *, void *, double);

    // Whether the thread ended, and what its call came to else.
    static bool call_in_a_thread(attile_comm *comm, const attile_attention_distributed_args *args, int calls, std::int32_t *status) {
        struct Work {
            attile_comm *comm;
            const attile_attention_distributed_args *args;
            int calls;
            std::int32_t status;
        } work{comm, args, calls, -1};
        pthread_t thread;
        const auto body = [](void *argument) -> void * {
            Work &own = *static_cast<Work *>(argument);
            calls_left = own.calls;
            own.status = attile_attention_distributed(own.comm, own.args);
            return nullptr;
        };
        EXPECT_EQ(pthread_create(&thread, nullptr, body, &work), 0);
        pthread_join(thread, nullptr);
        *status = work.status;
        return work.status == -1;
    }
};
thread_local int EndedThread::calls_left = 0;
std::int32_t (*EndedThread::wait_of_mail)(void *, void *, double) = nullptr;

TEST_P(EndedThread, IsHeardOf) {
#ifdef ATTILE_SANITIZES_UNDEFINED
    GTEST_SKIP() << "what ends a thread has no address, which the sanitizer takes for a fault of whoever catches it";
#endif
    int ended = 0;
    for (int n = 1; n < 100; ++n) {
        RanksOptions ranks;
        ranks.ranks = 3;
        Mail mail(3, {});
        if (GetParam() == Kind::kThreads) {
            attile_set_log([](void *, std::int32_t, const char *) { count(); }, nullptr, ATTILE_LOG_TRACE);
        } else {
            ranks.mail = &mail;
            wait_of_mail = mail.callbacks(0).wait;
            ranks.change = [](attile_comm_callbacks *callbacks) {
                callbacks->wait = wait;
                callbacks->all_gather = nullptr;
            };
        }
        bool over = false;
        run_ranks(ranks, [&](Rank &rank) {
            ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
            SmallCall problem(3);
            std::int32_t status = -1;
            if (rank.rank == 1) {
                over = call_in_a_thread(rank.comm, &problem.args, n, &status);
                EXPECT_EQ(attile_attention_distributed(rank.comm, &problem.args), over ? ATTILE_ERROR_COMM_BROKEN : ATTILE_OK)
                    << last_error();
                return;
            }
            status = attile_attention_distributed(rank.comm, &problem.args);
            const std::int32_t afterwards = attile_attention_distributed(rank.comm, &problem.args);
            EXPECT_TRUE(status == ATTILE_OK || status / 1000 == 6) << last_error();
            EXPECT_TRUE(afterwards == ATTILE_OK || afterwards / 1000 == 6) << last_error();
            if (status != ATTILE_OK && GetParam() == Kind::kThreads) {
                EXPECT_NE(last_error().find("its thread was ended during a call"), std::string::npos) << last_error();
            }
        });
        attile_set_log(nullptr, nullptr, ATTILE_LOG_OFF);
        if (!over) break;
        ++ended;
    }
    EXPECT_GT(ended, 3);
    EXPECT_LT(ended, 99);
}

INSTANTIATE_TEST_SUITE_P(Transports, EndedThread, testing::Values(Kind::kThreads, Kind::kCallbacks), name_of);

// One rank joins another group while the others compute.
TEST(Calls, ThatDifferAreNamed) {
    Mail mail(2, {});
    RanksOptions ranks;
    ranks.mail = &mail;
    run_ranks(ranks, [&](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        SmallCall problem(2);
        if (rank.rank == 0) {
            EXPECT_EQ(attile_attention_distributed(rank.comm, &problem.args), ATTILE_ERROR_RANKS_DISAGREE);
        } else {
            const attile_comm_callbacks callbacks = mail.callbacks(1);
            attile_comm_options options;
            attile_comm_options_init(&options, sizeof options);
            options.rank = 1;
            options.ranks = 2;
            options.callbacks = &callbacks;
            attile_comm *other = nullptr;
            EXPECT_EQ(attile_comm_create(rank.context, &options, &other), ATTILE_ERROR_RANKS_DISAGREE);
        }
        EXPECT_NE(last_error().find("the call is comm_create on rank 1 and attention_distributed on rank 0"), std::string::npos)
            << last_error();
    });
}

}  // namespace
}  // namespace attile::test
