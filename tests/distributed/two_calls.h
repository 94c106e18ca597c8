// SPDX-License-Identifier: Apache-2.0
// A small call that every rank makes twice: once as a test has it, and once to see what the communicator is good for afterwards.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ranks.h"

namespace attile::test {

/// A small call: 3 rows and 5 keys a rank.
struct Problem {
    explicit Problem(int ranks) {
        const std::int64_t q[4] = {1, 4, 3, 8}, k[4] = {1, 2, 5, 8};
        attile_attention_init(&local, sizeof local);
        const auto bind = [&](attile_tensor *tensor, std::vector<float> &memory, const std::int64_t *shape) {
            memory.assign(static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]), 0.5F);
            attile_tensor_init(tensor, memory.data(), ATTILE_F32, 4, shape);
        };
        bind(&local.q, q_, q);
        bind(&local.k, k_, k);
        bind(&local.v, v_, k);
        bind(&local.o, o_, q);
        attile_attention_distributed_init(&args, sizeof args);
        args.local = &local;
        args.method = ATTILE_METHOD_RING;
        args.len_q = 3 * ranks;
        args.len_k = 5 * ranks;
    }
    Problem(const Problem &) = delete;
    Problem &operator=(const Problem &) = delete;

    attile_attention_args local;
    attile_attention_distributed_args args;

  private:
    std::vector<float> q_, k_, v_, o_;
};

struct Result {
    std::int32_t status = -1;
    std::string why;
    std::int32_t afterwards = -1;
    std::string why_afterwards;
};

/// Every rank makes one call and another; `prepare` changes what a rank does before the first.
std::vector<Result> call_twice(const RanksOptions &options, const std::function<void(Rank &, Problem &)> &prepare);

/// The transports whose ranks hear of a failure at once, and the one that has to go on until the end.
enum class Kind { kThreads, kCallbacks, kBareCallbacks };

std::string name_of(const testing::TestParamInfo<Kind> &given);

}  // namespace attile::test
