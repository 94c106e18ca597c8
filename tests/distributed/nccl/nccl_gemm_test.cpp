// SPDX-License-Identifier: Apache-2.0
// Products of matrices over ranks of NCCL: any layout, tensors of the device and of the host, and where the messages of each lie.
// Environment: ATTILE_GRID_PROBLEMS=n, so many products at random for each number of ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "grid_product.h"
#include "nccl_ranks.h"
#include "over_ranks.h"
#include "test_element.h"
#include "test_tensor.h"

namespace attile::test {
namespace {

void expect_right(int ranks, const std::vector<GridProduct> &products, Placement placement) {
    const NcclComms comms(ranks);
    RanksOptions options = ranks_of(comms, ranks);
    options.placement = placement;
    run_ranks(options, [&](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        for (const GridProduct &product : products)
            ASSERT_EQ(run_product(rank, ranks, product), "") << "rank " << rank.rank << " of " << ranks << ", " << describe(product);
    });
}

class NcclGemm : public testing::TestWithParam<int> {
  protected:
    void SetUp() override { ATTILE_SKIP_WITHOUT_DEVICES(GetParam()); }
};

TEST_P(NcclGemm, AnyLayoutGivesWhatOneRankGives) {
    const std::uint64_t count = number("ATTILE_GRID_PROBLEMS", 120);
    for (const Placement placement : {Placement::kDevice, Placement::kHost}) {
        std::vector<GridProduct> products;
        for (std::uint64_t seed = 1; seed <= (placement == Placement::kDevice ? count : count / 4); ++seed)
            products.push_back(random_product(GetParam(), seed));
        expect_right(GetParam(), products, placement);
    }
}

INSTANTIATE_TEST_SUITE_P(Ranks, NcclGemm, testing::Values(1, 2, 3, 4), [](const auto &given) { return std::to_string(given.param); });

// Blocks of 1 and of 3 rows: what two ranks have in common lies at distances that take turns.
TEST(NcclGemmPlaces, RowsAtUnequalDistances) {
    ATTILE_SKIP_WITHOUT_DEVICES(2);
    std::vector<GridProduct> products;
    for (const std::int32_t method : {ATTILE_METHOD_STATIONARY_A, ATTILE_METHOD_STATIONARY_C}) {
        GridProduct product;
        product.m = 24;
        product.n = 5;
        product.k = 6;
        product.method = method;
        product.a.rows = product.d.rows = 2;
        product.a.columns = product.d.columns = 1;
        product.a.block_rows = 1;
        product.d.block_rows = 3;
        products.push_back(product);
    }
    expect_right(2, products, Placement::kDevice);
}

// Square matrices of ones, 4 lines of each on a rank.
struct Ones {
    static constexpr std::int64_t kLines = 4;

    Ones(const Rank &rank, int ranks, Placement placement)
        : lines(kLines * ranks), elements(static_cast<std::size_t>(kLines * lines)), memory(rank.context, placement, bytes(3)) {
        std::vector<std::byte> ones(static_cast<std::size_t>(memory.bytes()));
        for (std::size_t at = 0; at < ones.size(); at += sizeof(float)) encode(ATTILE_F32, 1, &ones[at]);
        memory.upload(ones);
        attile_grid_init(&column, sizeof column);
        column.rows = ranks;
        column.columns = 1;
        attile_gemm_distributed_init(&args, sizeof args);
        const std::int64_t shape[2] = {kLines, lines};
        for (int which = 0; which < 3; ++which) {
            attile_distributed_matrix_init(&matrices[which], sizeof matrices[which]);
            matrices[which].grid = &column;
            matrices[which].rows = matrices[which].columns = lines;
            attile_tensor_init(&matrices[which].local, part(which), ATTILE_F32, 2, shape);
        }
        args.m = args.n = args.k = lines;
        args.a = &matrices[0];
        args.b = &matrices[1];
        args.d = &matrices[2];
    }
    std::int64_t bytes(int parts) const { return static_cast<std::int64_t>(elements * sizeof(float)) * parts; }
    float *part(int which) const { return reinterpret_cast<float *>(memory.data() + bytes(which)); }
    std::string text(const Rank &rank) const {
        attile_distributed_support support;
        attile_distributed_support_init(&support, sizeof support);
        EXPECT_EQ(attile_gemm_distributed_query(rank.comm, &args, &support), ATTILE_OK) << last_error();
        return support.text;
    }
    std::int32_t call(const Rank &rank) const { return attile_gemm_distributed(rank.comm, &args); }
    /// What the product is made of `terms` of.
    void expect_sums(double terms) const {
        std::vector<std::byte> all;
        memory.fetch(all);
        for (std::size_t at = 2 * elements; at < 3 * elements; ++at) ASSERT_EQ(decode(ATTILE_F32, &all[at * sizeof(float)]), terms);
    }

    const std::int64_t lines;
    const std::size_t elements;  // of a part
    Memory memory;
    attile_grid column;
    attile_distributed_matrix matrices[3];
    attile_gemm_distributed_args args;
};

void expect_end(const std::string &text, const std::string &end) {
    EXPECT_EQ(text.substr(text.size() - std::min(text.size(), end.size())), end) << text;
}

TEST(NcclGemmQuery, SaysWhereMessagesLie) {
    ATTILE_SKIP_WITHOUT_DEVICES(2);
    const std::string in_device = "; messages lie in device memory", in_host = "; messages lie in host memory";
    const NcclComms comms(2);
    run_ranks(ranks_of(comms, 2), [&](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        Ones device(rank, 2, Placement::kDevice);
        const Ones host(rank, 2, Placement::kHost);
        expect_end(device.text(rank), in_device);
        expect_end(host.text(rank), in_host);
        std::vector<float> bias(static_cast<std::size_t>(device.lines), 2.0F);
        attile_tensor_init(&device.args.bias, bias.data(), ATTILE_F32, 1, &device.lines);
        device.args.bias_axis = ATTILE_BIAS_COLUMNS;
        expect_end(device.text(rank), in_host);  // it alone is on the host
        EXPECT_EQ(device.call(rank), ATTILE_OK) << last_error();
        device.expect_sums(static_cast<double>(device.lines) + 2);
        device.args.bias = {};
        device.args.bias_axis = ATTILE_BIAS_NONE;
        device.args.beta = 3;
        device.args.c = host.matrices[2].local;
        expect_end(device.text(rank), in_host);
        EXPECT_EQ(device.call(rank), ATTILE_OK) << last_error();
        device.expect_sums(static_cast<double>(device.lines) + 3);
    });
    RanksOptions threads;
    threads.backend = device_of_rank(0);
    run_ranks(threads, [&](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        expect_end(Ones(rank, 2, Placement::kDevice).text(rank), in_host);
    });
}

// A rank whose tensors are on the host among others whose are on the device.
TEST(NcclGemmPlaces, MayDifferFromRankToRank) {
    ATTILE_SKIP_WITHOUT_DEVICES(3);
    const NcclComms comms(3);
    run_ranks(ranks_of(comms, 3), [&](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        Ones ones(rank, 3, rank.rank == 1 ? Placement::kHost : Placement::kDevice);
        for (const std::int32_t method : {ATTILE_METHOD_STATIONARY_A, ATTILE_METHOD_STATIONARY_B, ATTILE_METHOD_STATIONARY_C}) {
            ones.args.method = method;
            ASSERT_EQ(ones.call(rank), ATTILE_OK) << last_error();
            ones.expect_sums(static_cast<double>(ones.lines));
        }
    });
}

// By ScaLAPACK's names: the same memory as columns.
TEST(NcclGemmPlaces, PsgemmTakesDeviceMemory) {
    ATTILE_SKIP_WITHOUT_DEVICES(2);
    const NcclComms comms(2);
    run_ranks(ranks_of(comms, 2), [&](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        const Ones ones(rank, 2, Placement::kDevice);
        std::int32_t context = 0;
        ASSERT_EQ(attile_grid_open(rank.comm, nullptr, &context), ATTILE_OK) << last_error();
        const std::int32_t n = static_cast<std::int32_t>(ones.lines), block = Ones::kLines;
        const std::int32_t descriptor[9] = {1, context, n, n, block, block, 0, 0, n};
        EXPECT_EQ(attile_psgemm('N', 'T', n, n, n, 1, ones.part(0), 1, 1, descriptor, ones.part(1), 1, 1, descriptor, 2, ones.part(2), 1, 1,
                                descriptor),
                  ATTILE_OK)
            << last_error();
        ones.expect_sums(n + 2);
        attile_grid_close(context);
    });
}

TEST(NcclGemmFaults, ARankWithoutDeviceMemoryIsAStatusOnAll) {
    if (!Nccl::instance().is_stand_in()) GTEST_SKIP() << "all of a GPU's memory is not taken here";
    setenv("ATTILE_EMULATED_CAPACITY", "1000000", 1);
    const NcclComms comms(3);
    run_ranks(ranks_of(comms, 3), [&](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        const Ones ones(rank, 3, Placement::kDevice);
        void *memory = nullptr;
        for (std::int64_t bytes = 4096; bytes >= 16 && rank.rank == 1; bytes /= 16) {
            while (attile_alloc(rank.context, ATTILE_MEMORY_DEVICE, bytes, &memory) == ATTILE_OK) continue;
        }
        EXPECT_EQ(ones.call(rank), rank.rank == 1 ? ATTILE_ERROR_OUT_OF_DEVICE_MEMORY : ATTILE_ERROR_RANK_FAILED) << last_error();
        const std::string words = rank.rank == 1 ? "gemm_distributed: no device memory for " : "rank 1 failed with ATTILE_ERROR_OUT_OF_DEV";
        EXPECT_NE(last_error().find(words), std::string::npos) << last_error();
    });
    unsetenv("ATTILE_EMULATED_CAPACITY");
}

}  // namespace
}  // namespace attile::test
