// SPDX-License-Identifier: Apache-2.0
// Ranks of NCCL itself, one for each GPU: attention, its gradients and products against the result of one rank. ATTILE_TEST_NCCL names the
// library, as .../nvidia/nccl/lib/libnccl.so.2 of PyTorch's packages; without it, or without a GPU, every test is skipped.
// distributed_nccl runs with the same variable, where there are four GPUs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "grid_product.h"
#include "nccl_ranks.h"
#include "over_ranks.h"
#include "sharded_attention.h"
#include "sharded_gradients.h"

namespace attile::test {
namespace {

constexpr std::int32_t kStorage[] = {ATTILE_BF16, ATTILE_F16, ATTILE_F32};

int count_devices() {
    int count = 0;
    while (count < 8 && opens("cuda:" + std::to_string(count))) ++count;
    return count;
}

class NcclDevice : public testing::Test {
  protected:
    void SetUp() override {
        const char *library = std::getenv("ATTILE_TEST_NCCL");
        if (library == nullptr || library[0] == '\0') GTEST_SKIP() << "ATTILE_TEST_NCCL names no library of NCCL";
        ASSERT_EQ(Nccl::instance().failure(), "");
        static const int devices = count_devices();
        if (devices == 0) GTEST_SKIP() << "no context of cuda can be made: " << last_error();
        ranks_ = devices;
    }

    // Runs the case by each method, with tensors of the host and of the device.
    void expect_right(const CaseOverRanks &test_case, const std::vector<int> &methods, int layout, bool replicated = false) const {
        const NcclComms comms(ranks_);
        const RanksOptions options = ranks_of(comms, ranks_);
        for (const Placement placement : {Placement::kDevice, Placement::kHost}) {
            std::vector<Job> jobs;
            for (const int method : methods) {
                RunOfCase run;
                run.ranks = ranks_;
                run.join = options.join;
                run.backends = options.backends;
                run.backend = "cuda";
                run.placement = placement;
                run.layout = layout;
                run.method = method;
                run.replicated = replicated;
                jobs.push_back({&test_case, run, {}, {}});
            }
            run_jobs(jobs);
            for (const Job &job : jobs) EXPECT_EQ(job.wrong, "") << describe(job.run) << ": " << job.test_case->text();
        }
    }

    int ranks_ = 0;
};

AttentionCase problem(std::int32_t dtype, std::int64_t length) {
    AttentionCase c;
    c.dtype = c.out_dtype = dtype;
    c.batch = 1;
    c.heads_q = 8;
    c.heads_kv = 4;
    c.len_q = c.len_k = length;
    c.head_dim = c.head_dim_v = 128;
    c.q_layout.order = c.k_layout.order = c.v_layout.order = c.o_layout.order = Order::kHeadsInside;
    return c;
}

const std::vector<int> kMethods = {ATTILE_METHOD_RING, ATTILE_METHOD_ALL_GATHER, ATTILE_METHOD_ALL_TO_ALL};

TEST_F(NcclDevice, Attention) {
    for (const std::int32_t dtype : kStorage) {
        // Of half a million numbers one is off by more than twice a row's largest honest error, by chance; so there are fewer.
        AttentionCase full = problem(dtype, 264), causal = problem(dtype, 515), rest = problem(dtype, 390);
        causal.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
        causal.k_layout.order = Order::kRowMajor;
        rest.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        rest.sinks = true;
        rest.alibi = 1;
        rest.batch = 2;
        expect_right(ShardedCase(full), kMethods, ATTILE_SHARDS_CONTIGUOUS);
        expect_right(ShardedCase(causal), kMethods, ATTILE_SHARDS_ZIGZAG);
        expect_right(ShardedCase(rest), kMethods, ATTILE_SHARDS_STRIPED);
    }
}

TEST_F(NcclDevice, Gradients) {
    for (const std::int32_t dtype : kStorage) {
        BackwardCase c;
        c.forward = problem(dtype, 262);
        c.forward.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
        c.dout_dtype = c.grad_dtype = dtype;
        expect_right(ShardedGradients(c), kMethods, ATTILE_SHARDS_ZIGZAG);
    }
}

TEST_F(NcclDevice, Tree) {
    for (const std::int32_t dtype : kStorage) {
        AttentionCase c = problem(dtype, 1500);
        c.len_q = 3;
        c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        expect_right(ShardedCase(c), {ATTILE_METHOD_TREE}, ATTILE_SHARDS_CONTIGUOUS, true);
    }
}

TEST_F(NcclDevice, Products) {
    for (const Placement placement : {Placement::kHost, Placement::kDevice}) {
        const NcclComms comms(ranks_);
        RanksOptions options = ranks_of(comms, ranks_);
        options.placement = placement;
        run_ranks(options, [&](Rank &rank) {
            ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
            for (std::uint64_t seed = 1; seed <= 40; ++seed) {
                const GridProduct product = random_product(ranks_, seed);
                ASSERT_EQ(run_product(rank, ranks_, product), "") << "rank " << rank.rank << ": " << describe(product);
            }
        });
    }
}

}  // namespace
}  // namespace attile::test
