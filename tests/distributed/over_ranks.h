// SPDX-License-Identifier: Apache-2.0
// A case of tools/cases cut into shards, computed over ranks, put together again and judged as the case of one rank is.
#pragma once

#include <attile/attile_distributed.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "problem.h"
#include "ranks.h"

namespace attile::test {

struct RunOfCase {
    int ranks = 2;
    std::string backend = "reference";
    int layout = ATTILE_SHARDS_CONTIGUOUS, method = ATTILE_METHOD_AUTO;
    Mail *mail = nullptr;
    std::vector<std::int64_t> cuts_q, cuts_k;
    bool replicated = false;  ///< every rank has all rows
    bool strides = false;     ///< broadcasts of bias, and sums of dbias, by strides of 0
};

std::string describe(const RunOfCase &run);

/// Positions of every rank. `cuts`, for CONTIGUOUS: where ranks begin; empty: evenly.
std::vector<std::vector<std::int64_t>> positions_of(int layout, std::int64_t length, int ranks, const std::vector<std::int64_t> &cuts = {});

/// What one rank got.
struct ResultsOfRank {
    std::string failure;
    std::vector<Values> outputs;
    std::vector<std::byte> bytes;  ///< of all outputs
};

/// A case that can be computed over ranks.
class CaseOverRanks {
  public:
    virtual ~CaseOverRanks() = default;
    virtual std::string text() const = 0;
    /// One rank's call.
    virtual void run(Rank &rank, const RunOfCase &run, ResultsOfRank *results) const = 0;
    /// Empty if results of all ranks, in the order of ranks, are right.
    virtual std::string judge(const RunOfCase &run, const std::vector<ResultsOfRank> &results) const = 0;
};

struct Job {
    const CaseOverRanks *test_case;
    RunOfCase run;
    std::string wrong;             ///< Empty, or what is wrong.
    std::vector<std::byte> bytes;  ///< Of all results.
};

/// Runs one after the other on one group of ranks and judges. All are of the first one's ranks, backend and transport.
void run_jobs(std::vector<Job> &jobs);

/// One job on a group of its own.
std::string run_case(const CaseOverRanks &test_case, const RunOfCase &run, std::vector<std::byte> *bytes = nullptr);

/// The values at some indices of an axis, counted from the last; an extent of 1 that stands for more stays.
Values take(const Values &values, std::size_t axis_from_end, const std::vector<std::int64_t> &indices);
/// Of q, k and v, whose axis 2 has all positions even where there is one.
Values take_rows(const Values &values, const std::vector<std::int64_t> &positions);
/// Puts a part back where it belongs.
void put(Values &whole, const Values &part, std::size_t axis_from_end, const std::vector<std::int64_t> &positions);

/// What outputs of a problem should be: float64 on the reference backend, and how far they may be off.
struct Expected {
    explicit Expected(const Problem &problem);
    std::vector<Honest> honest;
    std::vector<Values> values;
    std::vector<std::string> names;
    std::int32_t compute_dtype;
};

/// Tensors of one rank's call in guarded memory.
class GuardedTensors {
  public:
    explicit GuardedTensors(attile_context *context) : context_(context) {}
    attile_tensor input(std::int32_t dtype, const Values &values, const Layout &layout);  ///< absent if the values have no shape
    attile_tensor output(std::int32_t dtype, const std::vector<std::int64_t> &shape, const Layout &layout);
    /// After the call: what was damaged, and the outputs in order.
    void fetch(ResultsOfRank *results);

  private:
    attile_context *context_;
    std::vector<std::unique_ptr<TestTensor>> inputs_, outputs_;
};

/// A rank's shard of the operands of a forward call; o and lse are left absent.
void bind_shard(GuardedTensors &tensors, const AttentionData &data, const std::vector<std::int64_t> &rows,
                const std::vector<std::int64_t> &keys, attile_attention_args *args);

/// The backends that tests run on: ATTILE_TEST_BACKEND, or reference and cpu.
const std::vector<std::string> &backends();
bool full_list();  ///< ATTILE_TEST_TIER
/// Of an environment variable. Builds that take long look at fewer.
std::uint64_t number(const char *variable, std::uint64_t otherwise);

}  // namespace attile::test
