// SPDX-License-Identifier: Apache-2.0
// A case cut into shards: what one rank computes, and the judgement of all shards or of one as the case of one rank is judged.
#pragma once

#include <attile/attile_distributed.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "attention_data.h"
#include "checker.h"
#include "problem.h"

namespace attile::test {

struct ShardedRun {
    int ranks = 2;
    int layout = ATTILE_SHARDS_CONTIGUOUS, method = ATTILE_METHOD_AUTO;
    std::vector<std::int64_t> cuts_q, cuts_k;
    bool replicated = false;  ///< every rank has all rows
    bool strides = false;     ///< broadcasts of bias, and sums of dbias, by strides of 0
};

/// "4 ranks, zigzag, ring".
std::string describe(const ShardedRun &run);

/// Positions of every rank. `cuts`, for CONTIGUOUS: where ranks begin; empty: evenly.
std::vector<std::vector<std::int64_t>> positions_of(int layout, std::int64_t length, int ranks, const std::vector<std::int64_t> &cuts = {});

struct RankOfCase {
    int rank = 0;
    attile_context *context = nullptr;
    attile_comm *comm = nullptr;
    Placement placement = Placement::kHost;  ///< of the tensors
};

/// What one rank got.
struct ResultsOfRank {
    std::int32_t status = ATTILE_OK;  ///< of the call
    std::string failure;
    std::string kernel;  ///< As the query names it.
    std::vector<Values> outputs;
    std::vector<std::byte> bytes;  ///< of all outputs

    /// Keeps the status of the call; of a failure the library's sentence too. Whether it is ATTILE_OK.
    bool take(std::int32_t status_of_call);
};

/// A case that can be computed over ranks.
class CaseOverRanks {
  public:
    virtual ~CaseOverRanks() = default;
    virtual std::string text() const = 0;
    /// One rank's call.
    virtual void run(const RankOfCase &rank, const ShardedRun &run, ResultsOfRank *results) const = 0;
    /// Of results of all ranks, in the order of ranks. A rank without outputs is not looked at: its part is taken for right.
    virtual Verdict judge(const ShardedRun &run, const std::vector<ResultsOfRank> &results) const = 0;
};

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
    explicit GuardedTensors(const RankOfCase &rank) : context_(rank.context), placement_(rank.placement) {}
    attile_tensor input(std::int32_t dtype, const Values &values, const Layout &layout);  ///< absent if the values have no shape
    attile_tensor output(std::int32_t dtype, const std::vector<std::int64_t> &shape, const Layout &layout);
    /// After the call: what was damaged, and the outputs in order.
    void fetch(ResultsOfRank *results);

  private:
    attile_context *context_;
    Placement placement_;
    std::vector<std::unique_ptr<TestTensor>> inputs_, outputs_;
};

/// A rank's shard of the operands of a forward call; o and lse are left absent.
void bind_shard(GuardedTensors &tensors, const AttentionData &data, const std::vector<std::int64_t> &rows,
                const std::vector<std::int64_t> &keys, attile_attention_args *args);

}  // namespace attile::test
