// SPDX-License-Identifier: Apache-2.0
// One rank of attention over ranks of NCCL, with its tensors in its device's memory: bf16, zigzag shards, random numbers.
#ifndef ATTILE_BENCH_RANK_H
#define ATTILE_BENCH_RANK_H

#include <attile/attile_distributed.h>

#include <cstdint>
#include <string>
#include <vector>

#include "nccl_ranks.h"

namespace attile::test {

struct RankSizes {
    int ranks = 1;
    std::int64_t rows = 8192, heads = 8, head_dim = 128;  // rows of each rank
};

// Throws std::runtime_error where the library refuses.
class BenchRank {
  public:
    BenchRank(const RankSizes &sizes, int rank, const std::string &backend);
    ~BenchRank();
    BenchRank(const BenchRank &) = delete;
    BenchRank &operator=(const BenchRank &) = delete;

    // A session of calls; all ranks join and leave.
    void join(const NcclComms &comms);
    void leave();
    void call(int method, bool causal, bool backward);
    void synchronize();
    double transport_seconds() const;
    std::string device() const;
    // o, lse, dq, dk and dv as bytes.
    std::vector<std::vector<unsigned char>> results() const;
    // Makes every one of them NaN.
    void forget_results();

  private:
    void *allocate(std::int64_t bytes);
    attile_tensor rows();

    const RankSizes sizes_;
    const int rank_;
    int made_ = 0;
    attile_context *context_ = nullptr;
    attile_comm *comm_ = nullptr;
    attile_attention_args local_;
    attile_attention_backward_args gradients_;
};

}  // namespace attile::test

#endif
