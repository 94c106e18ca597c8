// SPDX-License-Identifier: Apache-2.0
// Attention over ranks as a case.
#pragma once

#include <string>
#include <vector>

#include "attention_data.h"
#include "sharded_case.h"

namespace attile::test {

class ShardedCase final : public CaseOverRanks {
  public:
    explicit ShardedCase(const AttentionCase &c);
    std::string text() const override { return describe(data_.c); }
    std::int64_t total_q() const { return data_.total_q; }
    std::int64_t total_k() const { return data_.total_k; }
    void run(const RankOfCase &rank, const ShardedRun &run, ResultsOfRank *results) const override;
    Verdict judge(const ShardedRun &run, const std::vector<ResultsOfRank> &results) const override;

  private:
    AttentionData data_;
    Expected expected_;
};

}  // namespace attile::test
