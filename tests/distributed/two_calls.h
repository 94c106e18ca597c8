// SPDX-License-Identifier: Apache-2.0
// A small call that every rank makes twice: once as a test has it, and once to see what the communicator is good for afterwards.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ranks.h"

namespace attile::test {

/// A small call: 3 rows and 5 keys a rank.
struct SmallCall {
    explicit SmallCall(int ranks) {
        attile_attention_init(&local, sizeof local);
        bind(&local.q, q_, kRows);
        bind(&local.k, k_, kKeys);
        bind(&local.v, v_, kKeys);
        bind(&local.o, o_, kRows);
        attile_attention_distributed_init(&args, sizeof args);
        args.local = &local;
        args.method = ATTILE_METHOD_RING;
        args.len_q = kRows[2] * ranks;
        args.len_k = kKeys[2] * ranks;
    }
    SmallCall(const SmallCall &) = delete;
    SmallCall &operator=(const SmallCall &) = delete;
    std::int32_t call(attile_comm *comm) const { return attile_attention_distributed(comm, &args); }

    attile_attention_args local;
    attile_attention_distributed_args args;

  protected:
    static constexpr std::int64_t kRows[4] = {1, 4, 3, 8}, kKeys[4] = {1, 2, 5, 8};
    static void bind(attile_tensor *tensor, std::vector<float> &memory, const std::int64_t *shape) {
        memory.assign(static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]), 0.5F);
        attile_tensor_init(tensor, memory.data(), ATTILE_F32, 4, shape);
    }

  private:
    std::vector<float> q_, k_, v_, o_;
};

/// The same with rows that every rank has.
struct SmallTree : SmallCall {
    explicit SmallTree(int ranks) : SmallCall(ranks) {
        args.method = ATTILE_METHOD_TREE;
        args.rows = ATTILE_ROWS_REPLICATED;
        args.len_q = kRows[2];
    }
};

/// Its gradients.
struct SmallGradients : SmallCall {
    explicit SmallGradients(int ranks) : SmallCall(ranks) {
        const std::int64_t lines[3] = {1, 4, 3}, heads = 4, scores[4] = {1, 1, 3, 5 * ranks};
        attile_tensor_init(&local.lse, lse_, ATTILE_F32, 3, lines);
        attile_tensor_init(&local.sinks, sinks_, ATTILE_F32, 1, &heads);
        attile_attention_backward_init(&gradients, sizeof gradients);
        gradients.forward = &local;
        bind(&local.bias, bias_, scores);
        bind(&gradients.dout, dout_, kRows);
        bind(&gradients.dq, dq_, kRows);
        bind(&gradients.dk, dk_, kKeys);
        bind(&gradients.dv, dv_, kKeys);
        bind(&gradients.dbias, dbias_, scores);
        attile_tensor_init(&gradients.dsinks, dsinks_, ATTILE_F32, 1, &heads);
        attile_attention_backward_distributed_init(&backward, sizeof backward);
        backward.local = &gradients;
        backward.method = ATTILE_METHOD_RING;
        backward.len_q = args.len_q;
        backward.len_k = args.len_k;
    }
    std::int32_t call(attile_comm *comm) const { return attile_attention_backward_distributed(comm, &backward); }

    attile_attention_backward_args gradients;
    attile_attention_backward_distributed_args backward;

  private:
    float lse_[12] = {}, sinks_[4] = {}, dsinks_[4] = {};
    std::vector<float> bias_, dout_, dq_, dk_, dv_, dbias_;
};

struct Result {
    std::int32_t status = -1;
    std::string why;
    std::int32_t afterwards = -1;
    std::string why_afterwards;
};

/// Every rank makes one call and another; `prepare` changes what a rank does before the first.
template <class Call>
std::vector<Result> call_twice(const RanksOptions &options, const std::function<void(Rank &, Call &)> &prepare) {
    std::vector<Result> results(static_cast<std::size_t>(options.ranks));
    run_ranks(options, [&](Rank &rank) {
        Result &result = results[static_cast<std::size_t>(rank.rank)];
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        Call first(options.ranks);
        prepare(rank, first);
        result.status = first.call(rank.comm);
        if (result.status != ATTILE_OK) result.why = last_error();
        Call right(options.ranks);
        result.afterwards = right.call(rank.comm);
        if (result.afterwards != ATTILE_OK) result.why_afterwards = last_error();
    });
    return results;
}

/// The transports whose ranks hear of a failure at once, and the one that has to go on until the end.
enum class Kind { kThreads, kCallbacks, kBareCallbacks };

std::string name_of(const testing::TestParamInfo<Kind> &given);

/// Tests by each kind of transport.
class OfEachKind : public testing::TestWithParam<Kind> {
  protected:
    /// The options live as long as the test.
    RanksOptions ranks(int count, double timeout = 60, MailOptions mail = {});

  private:
    std::unique_ptr<Mail> mail_;
};

}  // namespace attile::test
