// SPDX-License-Identifier: Apache-2.0
// An attention case of tools/cases cut into shards, computed over ranks, put together again and judged as the case of one rank is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "attention_data.h"
#include "problem.h"
#include "ranks.h"

namespace attile::test {

/// The data of a case and what should come out: float64 on the reference backend.
class ShardedCase {
  public:
    explicit ShardedCase(const AttentionCase &c);

    const AttentionData &data() const { return data_; }
    /// Empty if results of all ranks, in the order of ranks, are right.
    std::string judge(const std::vector<std::vector<std::int64_t>> &positions, const std::vector<Values> &o,
                      const std::vector<Values> &lse) const;

  private:
    AttentionData data_;
    std::unique_ptr<Problem> problem_;
    std::vector<Honest> honest_;
    Values o_, lse_;
};

/// One rank's shard in guarded memory, and the arguments that point to it.
struct ShardOfCase {
    ShardOfCase(attile_context *context, const AttentionData &data, const std::vector<std::int64_t> &rows,
                const std::vector<std::int64_t> &keys);
    std::string damage();  ///< after fetch()
    void fetch();

    std::vector<std::unique_ptr<TestTensor>> inputs;
    TestTensor o, lse;
    attile_attention_args args;
};

/// Positions of every rank. `cuts`, for CONTIGUOUS: where ranks begin; empty: evenly.
std::vector<std::vector<std::int64_t>> positions_of(int layout, std::int64_t length, int ranks, const std::vector<std::int64_t> &cuts = {});

struct RunOfCase {
    int ranks = 2;
    std::string backend = "reference";
    int layout = ATTILE_SHARDS_CONTIGUOUS, method = ATTILE_METHOD_AUTO;
    Mail *mail = nullptr;
    std::vector<std::int64_t> cuts_q, cuts_k;
};

std::string describe(const RunOfCase &run);

struct Job {
    const ShardedCase *test_case;
    RunOfCase run;
    std::string wrong;             ///< Empty, or what is wrong.
    std::vector<std::byte> bytes;  ///< Of all results.
};

/// Runs one after the other on one group of ranks and judges. All are of the first one's ranks, backend and transport.
void run_jobs(std::vector<Job> &jobs);

/// One job on a group of its own.
std::string run_case(const ShardedCase &test_case, const RunOfCase &run, std::vector<std::byte> *bytes = nullptr);

}  // namespace attile::test
