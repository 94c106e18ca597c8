// SPDX-License-Identifier: Apache-2.0
// Communicators: joining, leaving, hostile arguments, several at once, a fork; and what a query says.
#include <fault_injection.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "ranks.h"

namespace attile::test {
namespace {

class Comm : public testing::Test {
  protected:
    Comm() : context_(open_context("reference")) { attile_comm_options_init(&options_, sizeof options_); }
    ~Comm() override { attile_context_destroy(context_); }

    void expect_refused(std::int32_t status, const char *words) {
        attile_comm *comm = reinterpret_cast<attile_comm *>(16);
        EXPECT_EQ(attile_comm_create(context_, &options_, &comm), status) << words;
        EXPECT_EQ(comm, nullptr);
        EXPECT_NE(last_error().find(words), std::string::npos) << last_error();
    }

    attile_context *context_;
    attile_comm_options options_;
};

TEST_F(Comm, OfOneRankNeedsNoOptions) {
    attile_comm *comm = nullptr;
    ASSERT_EQ(attile_comm_create(context_, nullptr, &comm), ATTILE_OK) << last_error();
    attile_comm_info info;
    attile_comm_info_init(&info, sizeof info);
    ASSERT_EQ(attile_comm_get_info(comm, &info), ATTILE_OK);
    EXPECT_STREQ(info.kind, "threads");
    EXPECT_EQ(info.ranks, 1);
    EXPECT_EQ(info.rank, 0);
    EXPECT_EQ(info.status, ATTILE_OK);
    EXPECT_STREQ(info.text, "");
    EXPECT_EQ(info.timeout_seconds, 600);
    EXPECT_EQ(attile_attention_distributed(comm, nullptr), ATTILE_ERROR_NULL_ARGUMENT);
    ASSERT_EQ(attile_comm_get_info(comm, &info), ATTILE_OK);
    EXPECT_EQ(info.calls, 1);
    EXPECT_EQ(info.status, ATTILE_OK);  // nothing has gone wrong between ranks
    attile_comm_destroy(comm);
    EXPECT_EQ(attile_comm_get_info(comm, &info), ATTILE_ERROR_INVALID_COMM);
    EXPECT_NE(last_error().find("was destroyed"), std::string::npos);
    attile_comm_destroy(comm);
    attile_comm_destroy(nullptr);
    EXPECT_EQ(attile_comm_get_info(nullptr, &info), ATTILE_ERROR_INVALID_COMM);
    EXPECT_EQ(attile_comm_get_info(reinterpret_cast<attile_comm *>(context_), &info), ATTILE_ERROR_INVALID_COMM);
    EXPECT_EQ(attile_attention_distributed(comm, nullptr), ATTILE_ERROR_INVALID_COMM);
    EXPECT_EQ(attile_attention_distributed_query(comm, nullptr, nullptr), ATTILE_ERROR_INVALID_COMM);
}

TEST_F(Comm, RefusesWhatIsWrong) {
    EXPECT_EQ(attile_comm_create(context_, &options_, nullptr), ATTILE_ERROR_NULL_ARGUMENT);
    attile_comm *comm = nullptr;
    EXPECT_EQ(attile_comm_create(nullptr, &options_, &comm), ATTILE_ERROR_INVALID_CONTEXT);
    const attile_comm_options right = options_;
    options_.ranks = -1;
    expect_refused(ATTILE_ERROR_INVALID_VALUE, "options->ranks is -1; expected 0 to 65536");
    options_.ranks = 2;
    options_.rank = 2;
    expect_refused(ATTILE_ERROR_INVALID_VALUE, "options->rank is 2; expected 0 to 1");
    options_.rank = -1;
    expect_refused(ATTILE_ERROR_INVALID_VALUE, "options->rank is -1");
    options_ = right;
    options_.timeout_seconds = -3;
    expect_refused(ATTILE_ERROR_INVALID_VALUE, "timeout_seconds is -3");
    options_.timeout_seconds = 0.0 / std::strtod("0", nullptr);
    expect_refused(ATTILE_ERROR_INVALID_VALUE, "timeout_seconds is");
    options_ = right;
    options_.flags = 8;
    expect_refused(ATTILE_ERROR_INVALID_FLAGS, "flags is 0x8");
    options_ = right;
    options_.struct_size = 3;
    expect_refused(ATTILE_ERROR_STRUCT_SIZE, "struct_size is 3");
    options_ = right;
    options_.kind = "/etc/\npasswd";
    expect_refused(ATTILE_ERROR_BACKEND_NOT_FOUND, "kind is '/etc/?passwd'; expected one of: threads, mpi, nccl, callbacks");
    options_.kind = "threads";
    options_.communicator = 5;
    expect_refused(ATTILE_ERROR_INVALID_VALUE, "options->communicator is given, but kind is 'threads'; expected 0");
    options_ = right;
    options_.kind = "callbacks";
    expect_refused(ATTILE_ERROR_NULL_ARGUMENT, "options->callbacks is NULL");
    attile_comm_callbacks callbacks;
    attile_comm_callbacks_init(&callbacks, sizeof callbacks);
    options_.callbacks = &callbacks;
    expect_refused(ATTILE_ERROR_NULL_ARGUMENT, "callbacks->send is NULL");
    options_.kind = "threads";
    expect_refused(ATTILE_ERROR_INVALID_VALUE, "options->callbacks is given, but kind is 'threads'");
}

TEST_F(Comm, ReadsTheEnvironment) {
    setenv("ATTILE_COMM", "pigeons", 1);
    expect_refused(ATTILE_ERROR_BACKEND_NOT_FOUND, "ATTILE_COMM is 'pigeons'");
    setenv("ATTILE_COMM", "", 1);
    for (const char *wrong : {"soon", "-1", "0", "0.0", ".", "1.2.3", "2,5", "1 ", "nan", "0x10"}) {
        setenv("ATTILE_COMM_TIMEOUT", wrong, 1);
        expect_refused(ATTILE_ERROR_INVALID_VALUE,
                       ("ATTILE_COMM_TIMEOUT is '" + std::string(wrong) + "'; expected a positive number of seconds").c_str());
    }
    setenv("ATTILE_COMM_TIMEOUT", "2.5", 1);
    attile_comm *comm = nullptr;
    ASSERT_EQ(attile_comm_create(context_, &options_, &comm), ATTILE_OK) << last_error();
    attile_comm_info info;
    attile_comm_info_init(&info, sizeof info);
    ASSERT_EQ(attile_comm_get_info(comm, &info), ATTILE_OK);
    EXPECT_EQ(info.timeout_seconds, 2.5);
    attile_comm_destroy(comm);
    unsetenv("ATTILE_COMM");
    unsetenv("ATTILE_COMM_TIMEOUT");
}

TEST_F(Comm, ARankThatDoesNotComeIsNamed) {
    options_.ranks = 4;
    options_.rank = 2;
    options_.group = 1;
    options_.timeout_seconds = 0.1;
    expect_refused(ATTILE_ERROR_RANK_LATE, "within 0.1 s these ranks of group 1 did not come: 0, 1, 3");
    expect_refused(ATTILE_ERROR_RANK_LATE, "0, 1, 3");  // the group of before is gone
}

// Every allocation of one rank fails in its own run, before and after it has come.
TEST(CommFaults, NoMemoryOnOneRankThatJoins) {
    int joined = 0, failed = 0;
    for (std::int64_t n = 1; n < 200; ++n) {
        std::vector<std::int32_t> created(3, -1);
        bool reached = true;
        std::vector<std::thread> threads;
        for (int rank = 0; rank < 3; ++rank) {
            threads.emplace_back([&, rank] {
                attile_context *context = open_context("reference");
                attile_comm_options options;
                attile_comm_options_init(&options, sizeof options);
                options.kind = "threads";
                options.rank = rank;
                options.ranks = 3;
                options.group = 500 + n;
                options.timeout_seconds = 0.2;
                attile_comm *comm = nullptr;
                if (rank == 1) attile_fault_arm(ATTILE_FAULT_MEMORY | ATTILE_FAULT_THIS_THREAD, n, n);
                const std::int32_t status = attile_comm_create(context, &options, &comm);
                if (rank == 1) reached = attile_fault_disarm() >= n;
                created[static_cast<std::size_t>(rank)] = status;
                EXPECT_EQ(comm == nullptr, status != ATTILE_OK);
                attile_comm_destroy(comm);
                attile_context_destroy(context);
            });
        }
        for (std::thread &thread : threads) thread.join();
        const bool well = created[1] == ATTILE_OK;
        (well ? joined : failed) += 1;
        for (const std::int32_t status : created) EXPECT_EQ(status == ATTILE_OK, well) << "allocation " << n << ": " << status;
        if (!reached) break;
    }
    EXPECT_GT(joined, 0);
    EXPECT_GT(failed, 5);
}

// Several threads join one group at once, with what `options_of` gives them.
template <typename Options>
std::vector<std::pair<std::int32_t, std::string>> join(attile_context *context, int threads, Options options_of) {
    std::vector<std::pair<std::int32_t, std::string>> results(static_cast<std::size_t>(threads));
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t) {
        all.emplace_back([&, t] {
            const attile_comm_options options = options_of(t);
            attile_comm *comm = nullptr;
            const std::int32_t status = attile_comm_create(context, &options, &comm);
            results[static_cast<std::size_t>(t)] = {status, status != ATTILE_OK ? last_error() : ""};
            attile_comm_destroy(comm);
        });
    }
    for (std::thread &thread : all) thread.join();
    return results;
}

TEST_F(Comm, RanksThatDoNotFitEndTheGroup) {
    options_.ranks = 3;
    options_.group = 2;
    options_.timeout_seconds = 30;
    const auto twice = join(context_, 2, [&](int) { return options_; });
    for (const auto &[status, why] : twice) {
        EXPECT_EQ(status, ATTILE_ERROR_INVALID_VALUE);
        EXPECT_NE(why.find("options->rank is 0 on two threads of group 2"), std::string::npos) << why;
    }
    const auto counts = join(context_, 2, [&](int t) {
        attile_comm_options options = options_;
        options.rank = t;
        options.ranks = 3 + t;
        return options;
    });
    for (const auto &[status, why] : counts) {
        EXPECT_EQ(status, ATTILE_ERROR_RANKS_DISAGREE);
        EXPECT_NE(why.find("options->ranks is"), std::string::npos) << why;
    }
}

// Attention of a few rows, filled with what is told.
bool attend(attile_comm *comm, int ranks, float value) {
    std::vector<float> q(16, 1.0F), k(24, 0.5F), v(24, value), o(16, 0.0F);
    const std::int64_t rows[4] = {1, 1, 2, 8}, keys[4] = {1, 1, 3, 8};
    attile_attention_args local;
    attile_attention_init(&local, sizeof local);
    attile_tensor_init(&local.q, q.data(), ATTILE_F32, 4, rows);
    attile_tensor_init(&local.k, k.data(), ATTILE_F32, 4, keys);
    attile_tensor_init(&local.v, v.data(), ATTILE_F32, 4, keys);
    attile_tensor_init(&local.o, o.data(), ATTILE_F32, 4, rows);
    attile_attention_distributed_args args;
    attile_attention_distributed_init(&args, sizeof args);
    args.local = &local;
    args.len_q = 2 * ranks;
    args.len_k = 3 * ranks;
    args.method = ATTILE_METHOD_RING;
    if (attile_attention_distributed(comm, &args) != ATTILE_OK) return false;
    for (const float x : o)
        if (!(std::abs(x - value) < 1e-5F)) return false;
    return true;
}

// The first rank waits for the second, which sleeps. A program that knows the struct's first fields gets those alone.
TEST(CommInfo, TimeInTheTransport) {
    RanksOptions options;
    run_ranks(options, [](Rank &rank) {
        attile_comm_info before, after;
        attile_comm_info_init(&before, sizeof before);
        attile_comm_info_init(&after, sizeof after);
        ASSERT_EQ(attile_comm_get_info(rank.comm, &before), ATTILE_OK);
        constexpr auto kLate = std::chrono::milliseconds(60);
        if (rank.rank == 1) std::this_thread::sleep_for(kLate);
        const auto start = std::chrono::steady_clock::now();
        ASSERT_TRUE(attend(rank.comm, 2, 1)) << last_error();
        const double call = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        ASSERT_EQ(attile_comm_get_info(rank.comm, &after), ATTILE_OK);
        const double spent = after.transport_seconds - before.transport_seconds;
        EXPECT_GT(spent, rank.rank == 0 ? 0.03 : 0);
        EXPECT_LE(spent, call);
        after.struct_size = offsetof(attile_comm_info, transport_seconds);
        after.transport_seconds = -1;
        EXPECT_EQ(attile_comm_get_info(rank.comm, &after), ATTILE_OK);
        EXPECT_EQ(after.transport_seconds, -1);
    });
}

TEST_F(Comm, TwoAtOnce) {
    std::vector<std::thread> groups;
    for (int g = 0; g < 2; ++g) {
        groups.emplace_back([g] {
            RanksOptions ranks;
            ranks.ranks = 3 + g;
            run_ranks(ranks, [&](Rank &rank) {
                ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
                for (int i = 0; i < 20; ++i) EXPECT_TRUE(attend(rank.comm, ranks.ranks, static_cast<float>(g + i))) << last_error();
                attile_comm_info info;
                attile_comm_info_init(&info, sizeof info);
                EXPECT_EQ(attile_comm_get_info(rank.comm, &info), ATTILE_OK);
                EXPECT_EQ(info.calls, 20);
            });
        });
    }
    for (std::thread &group : groups) group.join();
}

TEST_F(Comm, TwoOfOneThread) {
    RanksOptions ranks;
    ranks.ranks = 3;
    run_ranks(ranks, [&](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        attile_comm_options options = options_;
        options.rank = 2 - rank.rank;
        options.ranks = 3;
        options.group = 77;
        attile_comm *other = nullptr;
        ASSERT_EQ(attile_comm_create(rank.context, &options, &other), ATTILE_OK) << last_error();
        for (int i = 0; i < 5; ++i) {
            EXPECT_TRUE(attend(rank.comm, 3, 1.0F)) << last_error();
            EXPECT_TRUE(attend(other, 3, 2.0F)) << last_error();
        }
        attile_comm_destroy(other);
    });
}

// A second call while one is waiting, and the end of the communicator under it.
TEST_F(Comm, UsedAndDestroyedDuringACall) {
    RanksOptions ranks;
    ranks.ranks = 2;
    std::atomic<attile_comm *> waiting{nullptr};
    run_ranks(ranks, [&](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        if (rank.rank == 0) {
            waiting = rank.comm;
            EXPECT_FALSE(attend(rank.comm, 2, 1.0F));  // rank 1 never joins
            return;
        }
        while (waiting == nullptr) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        EXPECT_EQ(attile_attention_distributed(waiting, nullptr), ATTILE_ERROR_INVALID_COMM);
        EXPECT_NE(last_error().find("another call is using this communicator"), std::string::npos) << last_error();
        attile_comm_destroy(waiting);
    });
}

TEST_F(Comm, IsNotForAForkedChild) {
    attile_comm *comm = nullptr;
    ASSERT_EQ(attile_comm_create(context_, nullptr, &comm), ATTILE_OK);
    const pid_t child = fork();
    if (child == 0) {
        attile_comm_info info;
        attile_comm_info_init(&info, sizeof info);
        const bool refused = attile_comm_get_info(comm, &info) == ATTILE_ERROR_AFTER_FORK &&
                             attile_attention_distributed(comm, nullptr) == ATTILE_ERROR_AFTER_FORK;
        attile_comm_destroy(comm);
        attile_comm *fresh = nullptr;
        attile_context *context = open_context("reference");
        const bool made = attile_comm_create(context, nullptr, &fresh) == ATTILE_OK;
        _exit(refused && made ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    attile_comm_destroy(comm);
}

// Extents that nothing has to be computed or looked at for.
TEST(Extents, WithoutElementsMayBeHuge) {
    run_ranks({}, [](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        const std::int64_t huge = std::int64_t{1} << 50;
        const std::int64_t q[4] = {huge, 4, 0, 8}, k[4] = {huge, 2, 0, 8};
        attile_attention_args local;
        attile_attention_init(&local, sizeof local);
        for (attile_tensor *tensor : {&local.q, &local.o}) attile_tensor_init(tensor, nullptr, ATTILE_F32, 4, q);
        for (attile_tensor *tensor : {&local.k, &local.v}) attile_tensor_init(tensor, nullptr, ATTILE_F32, 4, k);
        attile_attention_distributed_args args;
        attile_attention_distributed_init(&args, sizeof args);
        args.local = &local;
        for (args.method = ATTILE_METHOD_AUTO; args.method <= ATTILE_METHOD_ALL_TO_ALL; ++args.method)
            EXPECT_EQ(attile_attention_distributed(rank.comm, &args), ATTILE_OK) << last_error();
        attile_distributed_support support;
        attile_distributed_support_init(&support, sizeof support);
        args.method = ATTILE_METHOD_RING;
        for (attile_tensor *tensor : {&local.q, &local.k, &local.v, &local.o}) tensor->shape[2] = 512;
        local.q.shape[1] = local.k.shape[1] = local.v.shape[1] = local.o.shape[1] = 1;
        const std::int32_t status = attile_attention_distributed_query(rank.comm, &args, &support);
        EXPECT_TRUE(status != ATTILE_OK || support.bytes_sent > 0) << support.bytes_sent;
    });
}

TEST(ShardPart, CutsAndRefuses) {
    std::int64_t first = -1, count = -1, stride = -1;
    for (const int layout : {ATTILE_SHARDS_CONTIGUOUS, ATTILE_SHARDS_ZIGZAG, ATTILE_SHARDS_STRIPED}) {
        for (const int ranks : {1, 2, 3, 8}) {
            for (const std::int64_t length : {0, 1, 5, 16, 97}) {
                std::vector<int> seen(static_cast<std::size_t>(length), 0);
                for (int rank = 0; rank < ranks; ++rank) {
                    for (int part = 0; part < (layout == ATTILE_SHARDS_ZIGZAG ? 2 : 1); ++part) {
                        ASSERT_EQ(attile_shard_part(layout, length, rank, ranks, part, &first, &count, &stride), ATTILE_OK);
                        for (std::int64_t i = 0; i < count; ++i) ++seen.at(static_cast<std::size_t>(first + i * stride));
                    }
                }
                for (const int times : seen) EXPECT_EQ(times, 1);
            }
        }
    }
    EXPECT_EQ(attile_shard_part(0, std::int64_t{1} << 48, 7, 8, 0, &first, nullptr, nullptr), ATTILE_OK);
    EXPECT_EQ(first, 7 * (std::int64_t{1} << 45));
    EXPECT_EQ(attile_shard_part(3, 5, 0, 1, 0, &first, &count, &stride), ATTILE_ERROR_INVALID_VALUE);
    EXPECT_EQ(attile_shard_part(0, -1, 0, 1, 0, &first, &count, &stride), ATTILE_ERROR_INVALID_VALUE);
    EXPECT_EQ(attile_shard_part(0, INT64_MAX, 0, 1, 0, &first, &count, &stride), ATTILE_ERROR_INVALID_VALUE);
    EXPECT_EQ(attile_shard_part(0, 5, 1, 1, 0, &first, &count, &stride), ATTILE_ERROR_INVALID_VALUE);
    EXPECT_EQ(attile_shard_part(0, 5, 0, 0, 0, &first, &count, &stride), ATTILE_ERROR_INVALID_VALUE);
    EXPECT_EQ(attile_shard_part(0, 5, 0, 1, 1, &first, &count, &stride), ATTILE_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace attile::test
