// SPDX-License-Identifier: Apache-2.0
// Gradients over ranks as a case.
#pragma once

#include <string>
#include <vector>

#include "attention_data.h"
#include "sharded_case.h"

namespace attile::test {

class ShardedGradients final : public CaseOverRanks {
  public:
    explicit ShardedGradients(const BackwardCase &c);
    std::string text() const override { return describe(data_.c); }
    std::int64_t total_q() const { return data_.forward.total_q; }
    std::int64_t total_k() const { return data_.forward.total_k; }
    void run(const RankOfCase &rank, const ShardedRun &run, ResultsOfRank *results) const override;
    Verdict judge(const ShardedRun &run, const std::vector<ResultsOfRank> &results) const override;

  private:
    std::int32_t stored(const std::string &name) const;

    BackwardData data_;
    Expected expected_;
};

}  // namespace attile::test
