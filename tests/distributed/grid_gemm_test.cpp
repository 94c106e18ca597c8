// SPDX-License-Identifier: Apache-2.0
// Products of matrices over a grid of ranks: any layout gives what one rank gives, with the same bits in every run.
// Environment: ATTILE_TEST_BACKEND, one backend; ATTILE_GRID_PROBLEMS=n, so many products at random for each number of ranks.
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "grid_product.h"
#include "over_ranks.h"
#include "ranks.h"

namespace attile::test {
namespace {

/// Every rank runs all of them, one after the other.
std::vector<std::vector<std::byte>> run_all(const RanksOptions &options, const std::vector<GridProduct> &products) {
    std::vector<std::vector<std::byte>> bits(static_cast<std::size_t>(options.ranks) * products.size());
    run_ranks(options, [&](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        for (std::size_t i = 0; i < products.size(); ++i) {
            std::vector<std::byte> &own = bits[static_cast<std::size_t>(rank.rank) * products.size() + i];
            ASSERT_EQ(run_product(rank, options.ranks, products[i], &own), "")
                << "rank " << rank.rank << " of " << options.ranks << ", " << options.backend << ", " << describe(products[i]);
        }
    });
    return bits;
}

std::vector<GridProduct> random_products(int ranks, std::uint64_t first, std::uint64_t count) {
    std::vector<GridProduct> products;
    for (std::uint64_t seed = first; seed < first + count; ++seed) products.push_back(random_product(ranks, seed));
    return products;
}

class GridGemm : public testing::TestWithParam<int> {};

TEST_P(GridGemm, AnyLayoutGivesWhatOneRankGives) {
    for (const std::string &backend : backends()) {
        RanksOptions options;
        options.ranks = GetParam();
        options.backend = backend;
        run_all(options, random_products(options.ranks, 1, number("ATTILE_GRID_PROBLEMS", 160)));
    }
}

INSTANTIATE_TEST_SUITE_P(Ranks, GridGemm, testing::Values(1, 2, 3, 4, 6, 8), [](const auto &given) { return std::to_string(given.param); });

// Threads, and callbacks with and without collectives, whatever the order in which messages arrive. Sums in another order would be others.
TEST(GridTransports, GiveTheSameBits) {
    for (const int ranks : {4, 6}) {
        std::vector<GridProduct> products = random_products(ranks, 500, 30);
        for (GridProduct &product : products) {
            product.activation = ATTILE_ACTIVATION_NONE;
            product.wide_range = true;
            if (product.dtype != ATTILE_F64) product.out_dtype = ATTILE_F32;  // f16 has no such range
        }
        RanksOptions options;
        options.ranks = ranks;
        options.backend = backends().back();
        const auto threads = run_all(options, products);
        for (const bool collectives : {true, false}) {
            MailOptions mail_options;
            mail_options.collectives = collectives;
            mail_options.seed = collectives ? 3 : 4;
            Mail mail(ranks, mail_options);
            options.mail = &mail;
            EXPECT_EQ(run_all(options, products), threads);
        }
        options.mail = nullptr;
    }
}

GridSide cut(std::int32_t rows, std::int32_t columns, std::int32_t source_row = 0, std::int32_t source_column = 0) {
    GridSide side;
    side.rows = rows;
    side.columns = columns;
    side.source_row = source_row;
    side.source_column = source_column;
    return side;
}

// A hundred panels, between which nothing is rounded to the type of the result.
TEST(GridTypes, RoundOnce) {
    std::vector<GridProduct> products;
    for (const std::int32_t dtype : {ATTILE_F16, ATTILE_BF16}) {
        for (const std::int32_t method : {ATTILE_METHOD_STATIONARY_A, ATTILE_METHOD_STATIONARY_B, ATTILE_METHOD_STATIONARY_C}) {
            GridProduct product;
            product.dtype = product.out_dtype = dtype;
            product.m = product.n = 6;
            product.k = 6000;
            product.beta = 1;
            product.positive = true;
            product.method = method;
            product.panel = method == ATTILE_METHOD_STATIONARY_C ? 60 : 2;
            product.a = product.b = product.d = cut(2, 2);
            products.push_back(product);
        }
    }
    for (const std::string &backend : backends()) {
        RanksOptions options;
        options.ranks = 4;
        options.backend = backend;
        run_all(options, products);
    }
}

struct Pattern {
    const char *name;
    GridSide a, b, d;
    std::int64_t bytes;  ///< that a rank sends
};

// The layouts of docs/distributed.md: what they are called elsewhere, and that no more is sent than that takes.
TEST(GridPatterns, AreLayoutsOfOneCall) {
    constexpr int kRanks = 4;
    constexpr std::int64_t kM = 64, kN = 96, kK = 80, kBytes = sizeof(float);
    const Pattern patterns[] = {
        {"all-gather and GEMM", cut(kRanks, 1), cut(1, kRanks), cut(1, kRanks), kM * kK / kRanks * 3 * kBytes},
        {"GEMM and reduce-scatter", cut(1, kRanks), cut(kRanks, 1), cut(kRanks, 1), kM * kN / kRanks * 3 * kBytes},
        {"GEMM and all-reduce", cut(1, kRanks), cut(kRanks, 1), cut(kRanks, 1, ATTILE_REPLICATED), 2 * kM * kN / kRanks * 3 * kBytes},
        {"columns that need nothing", cut(1, kRanks, 0, ATTILE_REPLICATED), cut(1, kRanks), cut(1, kRanks), 0},
    };
    for (const Pattern &pattern : patterns) {
        GridProduct product;
        product.m = kM;
        product.n = kN;
        product.k = kK;
        product.a = pattern.a;
        product.b = pattern.b;
        product.d = pattern.d;
        Mail mail(kRanks, {});
        RanksOptions options;
        options.ranks = kRanks;
        options.mail = &mail;
        run_ranks(options, [&](Rank &rank) {
            ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
            ASSERT_EQ(run_product(rank, kRanks, product), "") << pattern.name;
        });
        std::int64_t sent = 0, talk = 0;
        for (int to = 0; to < kRanks; ++to) sent += to == 1 ? 0 : mail.bytes(1, to);
        product.m = 0;  // the same without data
        run_ranks(options, [&](Rank &rank) { ASSERT_EQ(run_product(rank, kRanks, product), ""); });
        for (int to = 0; to < kRanks; ++to) talk += to == 1 ? 0 : mail.bytes(1, to);
        talk -= sent;
        EXPECT_EQ(sent - talk, pattern.bytes) << pattern.name;
    }
}

}  // namespace
}  // namespace attile::test
