// SPDX-License-Identifier: Apache-2.0
// What goes wrong with gradients and with rows that every rank has: bad arguments, ranks that disagree, fail, leave or run out of memory.
// The rest of the list is in faults_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "memory_failures.h"
#include "two_calls.h"

namespace attile::test {
namespace {

class GradientFaults : public OfEachKind {};

template <class Call>
struct Change {
    const char *name;  ///< in the sentence
    std::function<void(Call &)> make;
};

template <class Call, std::size_t kCount>
void expect_disagreements(const RanksOptions &options, const Change<Call> (&changes)[kCount]) {
    for (const Change<Call> &change : changes) {
        const auto results = call_twice<Call>(options, [&](Rank &rank, Call &call) {
            if (rank.rank == 2) change.make(call);
        });
        for (const Result &result : results) {
            EXPECT_EQ(result.status, ATTILE_ERROR_RANKS_DISAGREE) << change.name << ": " << result.why;
            EXPECT_NE(result.why.find(change.name), std::string::npos) << result.why;
            EXPECT_EQ(result.afterwards, ATTILE_ERROR_COMM_BROKEN);
        }
    }
}

TEST_P(GradientFaults, DisagreementNamesWhatDiffers) {
    const Change<SmallGradients> changes[] = {
        {"layout is 2 on rank 2", [](SmallGradients &c) { c.backward.layout = ATTILE_SHARDS_STRIPED; }},
        {"method is 2 on rank 2", [](SmallGradients &c) { c.backward.method = ATTILE_METHOD_ALL_GATHER; }},
        {"local->flags", [](SmallGradients &c) { c.gradients.flags = ATTILE_FLAG_ALLOW_NONDETERMINISTIC; }},
        {"local->softcap", [](SmallGradients &c) { c.local.softcap = 2; }},
        {"local->dsinks is absent on rank 2", [](SmallGradients &c) { c.gradients.dsinks = {}; }},
        {"local->dbias.dtype is absent on rank 2", [](SmallGradients &c) { c.gradients.dbias = {}; }},
        {"the set of axes that local->bias broadcasts", [](SmallGradients &c) { c.local.bias.shape[3] = c.gradients.dbias.shape[3] = 1; }},
        {"local->dbias is one for all rows on rank 2", [](SmallGradients &c) { c.local.bias.shape[2] = c.gradients.dbias.shape[2] = 1; }},
    };
    expect_disagreements<SmallGradients>(ranks(3), changes);
    const Change<SmallTree> of_tree[] = {
        {"rows is 0 on rank 2",
         [](SmallTree &c) {
             c.args.rows = ATTILE_ROWS_SHARDED;
             c.args.method = ATTILE_METHOD_AUTO;
             c.args.len_q = 9;
         }},
        {"method is 0 on rank 2", [](SmallTree &c) { c.args.method = ATTILE_METHOD_AUTO; }},
        {"len_q is 2 on rank 2", [](SmallTree &c) { c.args.len_q = c.local.q.shape[2] = c.local.o.shape[2] = 2; }},
    };
    expect_disagreements<SmallTree>(ranks(3), of_tree);
}

TEST_P(GradientFaults, AnotherCallIsNamed) {
    run_ranks(ranks(2), [&](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        const SmallGradients call(2);
        const std::int32_t status = rank.rank == 0 ? call.call(rank.comm) : call.SmallCall::call(rank.comm);
        EXPECT_EQ(status, ATTILE_ERROR_RANKS_DISAGREE);
        EXPECT_NE(last_error().find("the call is attention_distributed on rank 1 and attention_backward_distributed on rank 0"),
                  std::string::npos)
            << last_error();
    });
}

// The context of one rank is gone: its local call fails after all ranks have agreed.
template <class Call>
void expect_local_failure(const RanksOptions &options, const std::function<void(Call &)> &change) {
    const auto results = call_twice<Call>(options, [&](Rank &rank, Call &call) {
        change(call);
        if (rank.rank == 2) attile_context_destroy(rank.context);
    });
    for (std::size_t rank = 0; rank < results.size(); ++rank) {
        EXPECT_EQ(results[rank].status, rank == 2 ? ATTILE_ERROR_INVALID_CONTEXT : ATTILE_ERROR_RANK_FAILED) << results[rank].why;
        EXPECT_NE(results[rank].why.find("was destroyed"), std::string::npos) << results[rank].why;
        if (rank != 2) {
            EXPECT_NE(results[rank].why.find("rank 2 failed"), std::string::npos) << results[rank].why;
        }
        EXPECT_EQ(results[rank].afterwards, ATTILE_ERROR_COMM_BROKEN);
    }
}

TEST_P(GradientFaults, ALocalFailureIsHeardOf) {
    for (int method = ATTILE_METHOD_RING; method <= ATTILE_METHOD_ALL_TO_ALL; ++method) {
        expect_local_failure<SmallGradients>(ranks(4), [&](SmallGradients &call) { call.backward.method = method; });
    }
    for (const int count : {3, 4, 6}) expect_local_failure<SmallTree>(ranks(count), [](SmallTree &) {});
}

TEST_P(GradientFaults, ARankThatLeavesDoesNotHangTheOthers) {
    run_ranks(ranks(3, GetParam() == Kind::kThreads ? 60 : 0.5), [&](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        if (rank.rank == 2) {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the others wait by now
            attile_comm_destroy(rank.comm);
            return;
        }
        EXPECT_EQ(SmallGradients(3).call(rank.comm) / 1000, 6) << last_error();
        EXPECT_EQ(SmallGradients(3).call(rank.comm), ATTILE_ERROR_COMM_BROKEN);
    });
}

TEST_P(GradientFaults, NoMemoryOnOneRank) {
    const auto three = [&] { return ranks(3); };
    for (int method = ATTILE_METHOD_RING; method <= ATTILE_METHOD_ALL_TO_ALL; ++method) {
        expect_failures_of_memory<SmallGradients>(three, [&](SmallGradients &call) { call.backward.method = method; });
    }
    expect_failures_of_memory<SmallTree>(three, [](SmallTree &) {});
}

INSTANTIATE_TEST_SUITE_P(Transports, GradientFaults, testing::Values(Kind::kThreads, Kind::kCallbacks, Kind::kBareCallbacks), name_of);

// A communicator of one rank and of two, of which the other need not answer for what is wrong by itself.
class GradientArguments : public testing::Test {
  protected:
    template <class Call>
    void expect(std::int32_t status, const char *words, const std::function<void(Call &)> &change) {
        RanksOptions options;
        options.ranks = 2;
        run_ranks(options, [&](Rank &rank) {
            ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
            Call call(2);
            change(call);
            EXPECT_EQ(call.call(rank.comm), status) << words << ": " << last_error();
            EXPECT_NE(last_error().find(words), std::string::npos) << last_error();
            attile_comm_info info;
            attile_comm_info_init(&info, sizeof info);
            ASSERT_EQ(attile_comm_get_info(rank.comm, &info), ATTILE_OK);
            EXPECT_EQ(info.status, ATTILE_OK) << "what is wrong on every rank breaks nothing";
        });
    }
};

TEST_F(GradientArguments, AreCheckedOneByOne) {
    using G = SmallGradients;
    expect<G>(ATTILE_ERROR_NULL_ARGUMENT, "args->local is NULL", [](G &c) { c.backward.local = nullptr; });
    expect<G>(ATTILE_ERROR_NULL_ARGUMENT, "args->local->forward is NULL", [](G &c) { c.gradients.forward = nullptr; });
    expect<G>(ATTILE_ERROR_INVALID_FLAGS, "flags", [](G &c) { c.backward.flags = 1; });
    expect<G>(ATTILE_ERROR_INVALID_VALUE, "layout is 3", [](G &c) { c.backward.layout = 3; });
    expect<G>(ATTILE_ERROR_INVALID_VALUE, "method is 5", [](G &c) { c.backward.method = ATTILE_METHOD_TREE; });
    expect<G>(ATTILE_ERROR_INVALID_VALUE, "len_k is -1", [](G &c) { c.backward.len_k = -1; });
    expect<G>(ATTILE_ERROR_NULL_ARGUMENT, "local->dout", [](G &c) { c.gradients.dout = {}; });
    expect<G>(ATTILE_ERROR_NULL_ARGUMENT, "local->forward->lse", [](G &c) { c.local.lse = {}; });
    expect<G>(ATTILE_ERROR_INVALID_DTYPE, "local->dk", [](G &c) { c.gradients.dk.dtype = ATTILE_F16; });
    expect<G>(ATTILE_ERROR_SHAPE_MISMATCH, "local->dq.shape[2]", [](G &c) { c.gradients.dq.shape[2] = 2; });
    expect<G>(ATTILE_ERROR_SHAPE_MISMATCH, "local->forward->bias", [](G &c) { c.local.bias.shape[3] = c.gradients.dbias.shape[3] = 5; });
    expect<G>(ATTILE_ERROR_INVALID_VALUE, "dbias is given", [](G &c) { c.local.bias = {}; });
    expect<G>(ATTILE_ERROR_INVALID_VALUE, "dsinks is given", [](G &c) { c.local.sinks = {}; });
    expect<G>(ATTILE_ERROR_ALIASING, "local->dv at", [](G &c) { c.gradients.dv = c.gradients.dk; });
    expect<G>(ATTILE_ERROR_ALIASING, "local->dbias at", [](G &c) { c.gradients.dbias.data = c.local.bias.data; });
    expect<G>(ATTILE_ERROR_UNSUPPORTED_FEATURE, "ATTILE_FLAG_NO_ALLOC", [](G &c) { c.gradients.flags = ATTILE_FLAG_NO_ALLOC; });
    expect<G>(ATTILE_ERROR_UNSUPPORTED_FEATURE, "local->workspace", [](G &c) {
        c.gradients.workspace = &c;
        c.gradients.workspace_bytes = 256;
    });
    // A feature is refused before the tensor that asks for it is looked at.
    const auto given = [](attile_tensor *tensor) { tensor->dtype = ATTILE_I32; };
    expect<G>(ATTILE_ERROR_UNSUPPORTED_FEATURE, "key_starts", [given](G &c) { given(&c.local.key_starts); });
    expect<G>(ATTILE_ERROR_UNSUPPORTED_FEATURE, "causal_offset", [given](G &c) { given(&c.local.causal_offset); });
    expect<G>(ATTILE_ERROR_UNSUPPORTED_FEATURE, "block_mask", [given](G &c) { given(&c.local.block_mask); });
    expect<G>(ATTILE_ERROR_UNSUPPORTED_FEATURE, "tree_mask", [given](G &c) { given(&c.local.tree_mask); });
    expect<G>(ATTILE_ERROR_UNSUPPORTED_FEATURE, "k_scale", [given](G &c) { given(&c.local.k_scale); });
    expect<G>(ATTILE_ERROR_UNSUPPORTED_FEATURE, "v_scale", [given](G &c) { given(&c.local.v_scale); });
    expect<G>(ATTILE_ERROR_UNSUPPORTED_FEATURE, "q_scale", [given](G &c) { given(&c.local.q_scale); });
    expect<G>(ATTILE_ERROR_UNSUPPORTED_FEATURE, "q.dtype of 8 bits",
              [](G &c) { c.local.q.dtype = c.local.k.dtype = c.local.v.dtype = ATTILE_I8; });
    expect<G>(ATTILE_ERROR_UNSUPPORTED_FEATURE, "k.dtype other than q's", [](G &c) { c.local.k.dtype = ATTILE_I8; });
    expect<G>(ATTILE_ERROR_UNSUPPORTED_FEATURE, "cu_len_q without cu_len_k", [given](G &c) { given(&c.local.cu_len_q); });
    expect<G>(ATTILE_ERROR_UNSUPPORTED_FEATURE, "dlse", [](G &c) { c.gradients.dlse = c.local.lse; });
    using T = SmallTree;
    expect<T>(ATTILE_ERROR_INVALID_VALUE, "rows is 2", [](T &c) { c.args.rows = 2; });
    expect<T>(ATTILE_ERROR_INVALID_VALUE, "method is 1 (ring) and rows is 1", [](T &c) { c.args.method = ATTILE_METHOD_RING; });
    expect<T>(ATTILE_ERROR_INVALID_VALUE, "method is 5 (tree) and rows is 0", [](T &c) { c.args.rows = ATTILE_ROWS_SHARDED; });
    expect<T>(ATTILE_ERROR_SHAPE_MISMATCH, "expected len_q = 4", [](T &c) { c.args.len_q = 4; });
    expect<T>(ATTILE_ERROR_STRUCT_TOO_NEW, "reserved is 1", [](T &c) { c.args.reserved = 1; });
}

// A caller with a header that has no `rows` yet.
TEST(OlderStructs, HaveShardedRows) {
    run_ranks({}, [](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        SmallCall call(2);
        call.args.struct_size = offsetof(attile_attention_distributed_args, rows);
        call.args.rows = 99;
        EXPECT_EQ(call.call(rank.comm), ATTILE_OK) << last_error();
    });
}

TEST(Query, SaysMethodAndWhy) {
    RanksOptions ranks;
    ranks.ranks = 4;
    run_ranks(ranks, [](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        SmallGradients call(4);
        call.backward.method = ATTILE_METHOD_AUTO;
        const auto ask = [&] {
            attile_distributed_support support;
            attile_distributed_support_init(&support, sizeof support);
            EXPECT_EQ(attile_attention_backward_distributed_query(rank.comm, &call.backward, &support), ATTILE_OK) << last_error();
            return support;
        };
        attile_distributed_support support = ask();
        EXPECT_EQ(support.method, ATTILE_METHOD_ALL_GATHER);
        EXPECT_EQ(support.level, ATTILE_SUPPORT_NATIVE);
        EXPECT_NE(std::string(support.text).find("all keys and values are"), std::string::npos) << support.text;
        EXPECT_STREQ(support.kernel, "reference_attention_backward");
        EXPECT_EQ(support.bytes_sent, 2 * 15 * (8 + 8) * (4 + 4));  // keys and values of three ranks, and sums
        EXPECT_EQ(support.flops, 2.0 * 4 * 12 * 20 * (3 * 8 + 2 * 8));
        // Long sequences, of which no data are looked at.
        const std::int64_t rows = 1 << 20;
        for (attile_tensor *tensor : {&call.local.q, &call.local.o, &call.gradients.dout, &call.gradients.dq, &call.local.k, &call.local.v,
                                      &call.gradients.dk, &call.gradients.dv}) {
            const std::int64_t shape[4] = {1, 4, rows, 8};
            attile_tensor_init(tensor, nullptr, ATTILE_F32, 4, shape);
        }
        const std::int64_t lines[3] = {1, 4, rows};
        attile_tensor_init(&call.local.lse, nullptr, ATTILE_F32, 3, lines);
        call.local.bias = call.gradients.dbias = {};
        call.backward.len_q = call.backward.len_k = 4 * rows;
        EXPECT_EQ(ask().method, ATTILE_METHOD_ALL_TO_ALL);
        call.local.k.shape[1] = call.local.v.shape[1] = call.gradients.dk.shape[1] = call.gradients.dv.shape[1] = 2;
        EXPECT_EQ(ask().method, ATTILE_METHOD_RING);
        call.gradients.flags = ATTILE_FLAG_NO_ALLOC;
        support = ask();
        EXPECT_EQ(support.level, ATTILE_SUPPORT_NONE);
        EXPECT_EQ(support.status, ATTILE_ERROR_UNSUPPORTED_FEATURE);

        const SmallTree tree(4);
        attile_distributed_support_init(&support, sizeof support);
        EXPECT_EQ(attile_attention_distributed_query(rank.comm, &tree.args, &support), ATTILE_OK) << last_error();
        EXPECT_EQ(support.method, ATTILE_METHOD_TREE);
        EXPECT_EQ(support.bytes_sent, 2 * 4 * 3 * (8 + 1) * 4);  // two steps
    });
}

// Offsets are data: wrong ones are clamped, and every rank comes to its end.
TEST(PackedOffsets, OutOfRangeOrDecreasing) {
    run_ranks({}, [](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        std::int32_t rows[5] = {-7, 4, 2, INT32_MAX, 3}, keys[5] = {3, 9, INT32_MIN, 2, INT32_MAX};
        const std::int64_t five = 5;
        for (int method = ATTILE_METHOD_RING; method <= ATTILE_METHOD_ALL_TO_ALL; ++method) {
            SmallGradients call(2);
            call.local.bias = call.gradients.dbias = {};
            attile_tensor_init(&call.local.cu_len_q, rows, ATTILE_I32, 1, &five);
            attile_tensor_init(&call.local.cu_len_k, keys, ATTILE_I32, 1, &five);
            call.args.method = call.backward.method = method;
            EXPECT_EQ(call.SmallCall::call(rank.comm), ATTILE_OK) << last_error();
            EXPECT_EQ(call.call(rank.comm), ATTILE_OK) << last_error();
        }
        SmallTree tree(2);
        attile_tensor_init(&tree.local.cu_len_q, rows, ATTILE_I32, 1, &five);
        attile_tensor_init(&tree.local.cu_len_k, keys, ATTILE_I32, 1, &five);
        EXPECT_EQ(tree.call(rank.comm), ATTILE_OK) << last_error();
    });
}

struct Scores {
    std::int64_t heads, rows;  ///< of bias and dbias; without rows the rank has none
};

// The strides of a bias without elements are 0 as attile_tensor_init() makes them, and ask for no sum. An extent of 1 does.
TEST(GradientExtents, RanksWithoutRowsTakeTheAxesOfOthers) {
    const struct {
        Scores ranks[3];
        std::int32_t status;
    } cases[] = {{{{4, 3}, {4, 0}, {4, 3}}, ATTILE_OK},
                 {{{4, 0}, {4, 3}, {4, 0}}, ATTILE_OK},
                 {{{4, 0}, {1, 3}, {1, 0}}, ATTILE_OK},
                 {{{4, 0}, {4, 0}, {4, 0}}, ATTILE_OK},
                 {{{4, 0}, {1, 0}, {4, 0}}, ATTILE_OK},
                 {{{1, 0}, {4, 3}, {4, 3}}, ATTILE_ERROR_RANKS_DISAGREE},
                 {{{4, 3}, {4, 0}, {1, 3}}, ATTILE_ERROR_RANKS_DISAGREE}};
    RanksOptions options;
    options.ranks = 3;
    for (const auto &one : cases) {
        for (int method = ATTILE_METHOD_RING; method <= ATTILE_METHOD_ALL_TO_ALL; ++method) {
            run_ranks(options, [&](Rank &rank) {
                ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
                const Scores &own = one.ranks[rank.rank];
                SmallGradients call(3);
                call.backward.method = method;
                call.backward.len_q = one.ranks[0].rows + one.ranks[1].rows + one.ranks[2].rows;
                const std::int64_t shape[4] = {1, own.heads, own.rows, call.backward.len_k};
                std::vector<float> bias(static_cast<std::size_t>(shape[1] * shape[2] * shape[3])), dbias(bias.size(), 7);
                attile_tensor_init(&call.local.bias, bias.data(), ATTILE_F32, 4, shape);
                attile_tensor_init(&call.gradients.dbias, dbias.data(), ATTILE_F32, 4, shape);
                for (attile_tensor *tensor : {&call.local.q, &call.local.o, &call.local.lse, &call.gradients.dout, &call.gradients.dq})
                    tensor->shape[2] = own.rows;
                EXPECT_EQ(call.call(rank.comm), one.status) << last_error();
                if (one.status == ATTILE_OK) {
                    EXPECT_EQ(std::count(dbias.begin(), dbias.end(), 7.0F), 0);
                } else {
                    EXPECT_NE(last_error().find("the set of axes that local->bias broadcasts is "), std::string::npos) << last_error();
                }
            });
        }
    }
}

// Extents that nothing has to be computed or looked at for.
TEST(GradientExtents, WithoutElementsMayBeHuge) {
    run_ranks({}, [](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        const std::int64_t huge = std::int64_t{1} << 50;
        const std::int64_t q[4] = {huge, 4, 0, 8}, k[4] = {huge, 2, 0, 8};
        SmallGradients call(2);
        for (attile_tensor *tensor : {&call.local.q, &call.local.o, &call.gradients.dout, &call.gradients.dq})
            attile_tensor_init(tensor, nullptr, ATTILE_F32, 4, q);
        for (attile_tensor *tensor : {&call.local.k, &call.local.v, &call.gradients.dk, &call.gradients.dv})
            attile_tensor_init(tensor, nullptr, ATTILE_F32, 4, k);
        attile_tensor_init(&call.local.lse, nullptr, ATTILE_F32, 3, q);
        call.local.bias = call.gradients.dbias = {};
        call.backward.len_q = call.backward.len_k = 0;
        for (call.backward.method = ATTILE_METHOD_AUTO; call.backward.method <= ATTILE_METHOD_ALL_TO_ALL; ++call.backward.method)
            EXPECT_EQ(call.call(rank.comm), ATTILE_OK) << last_error();
        SmallTree tree(2);
        for (attile_tensor *tensor : {&tree.local.q, &tree.local.o}) attile_tensor_init(tensor, nullptr, ATTILE_F32, 4, q);
        for (attile_tensor *tensor : {&tree.local.k, &tree.local.v}) attile_tensor_init(tensor, nullptr, ATTILE_F32, 4, k);
        tree.args.len_q = tree.args.len_k = 0;
        EXPECT_EQ(tree.call(rank.comm), ATTILE_OK) << last_error();
    });
}

}  // namespace
}  // namespace attile::test
