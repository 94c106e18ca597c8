// SPDX-License-Identifier: Apache-2.0
// Attention over ranks of MPI, by each method and layout, against the call of one rank.
#include <gtest/gtest.h>

#include <cstdlib>

#include "mpi_rank.h"
#include "sharded_attention.h"

namespace attile::test {
namespace {

std::vector<AttentionCase> cases() {
    AttentionCase plain;
    plain.len_q = 21;
    plain.len_k = 26;
    plain.heads_q = 4;
    plain.heads_kv = 2;
    plain.head_dim = 8;
    plain.head_dim_v = 5;
    plain.seed = 7;
    AttentionCase causal = plain, lengths = plain, bias = plain, large = plain;
    causal.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
    causal.sinks = true;
    causal.dtype = causal.out_dtype = ATTILE_BF16;
    lengths.key_lengths = true;
    lengths.batch = 3;
    lengths.alibi = 1;
    bias.bias = BiasKind::kSomeHidden;
    bias.dtype = bias.out_dtype = bias.bias_dtype = ATTILE_F64;
    // Messages that MPI does not send before they are asked for.
    large.len_q = large.len_k = 200;
    large.head_dim = large.head_dim_v = 32;
    return {plain, causal, lengths, bias, large};
}

void run_all(MpiRank &own, const std::string &backend, int first_method) {
    ASSERT_EQ(own.rank().created, ATTILE_OK) << own.rank().why;
    for (const AttentionCase &c : cases()) {
        const ShardedCase sharded(c);
        for (int layout = 0; layout < 3; ++layout) {
            for (int method = first_method; method <= ATTILE_METHOD_ALL_TO_ALL; ++method) {
                ShardedRun run;
                run.ranks = world_ranks();
                run.layout = layout;
                run.method = method;
                ResultsOfRank results;
                sharded.run(own.rank(), run, &results);
                ASSERT_EQ(results.failure, "") << describe(run) << " on " << backend;
                ASSERT_FALSE(results.outputs.empty());
                std::vector<ResultsOfRank> of_all(static_cast<std::size_t>(world_rank() == 0 ? run.ranks : 0));
                for (const Values &output : results.outputs) {
                    const std::vector<Values> gathered = gather(output);
                    for (std::size_t rank = 0; rank < gathered.size(); ++rank) of_all[rank].outputs.push_back(gathered[rank]);
                }
                if (world_rank() != 0) continue;
                EXPECT_EQ(sharded.judge(run, of_all).message, "") << describe(run) << " on " << backend << ": " << describe(c);
            }
        }
    }
}

class Attention : public testing::TestWithParam<const char *> {};

TEST_P(Attention, IsThatOfOneRank) {
    const std::string backend = GetParam();
    if (!opens(backend)) GTEST_SKIP() << "there is no backend " << backend;
    MpiRank own(backend);
    EXPECT_EQ(own.rank().rank, world_rank());
    run_all(own, backend, ATTILE_METHOD_AUTO);
}

INSTANTIATE_TEST_SUITE_P(Backends, Attention, testing::Values("reference", "cpu"),
                         [](const auto &given) { return std::string(given.param); });

// As messages above 1 GiB travel.
TEST(Pieces, MessagesOfSeveral) {
    setenv("ATTILE_COMM_MPI_PIECE", "1000", 1);
    MpiRank own;
    unsetenv("ATTILE_COMM_MPI_PIECE");
    run_all(own, "reference", ATTILE_METHOD_RING);
}

}  // namespace
}  // namespace attile::test
