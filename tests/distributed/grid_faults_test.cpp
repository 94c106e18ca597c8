// SPDX-License-Identifier: Apache-2.0
// Products over ranks that are called wrongly, disagree or fail: a status on every rank, nothing written, no work afterwards.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "memory_failures.h"
#include "test_random.h"
#include "two_calls.h"

namespace attile::test {
namespace {

/// Rows of A and columns of B and D are cut evenly, so that every rank has as many. Three panels with any method.
struct SmallProduct {
    explicit SmallProduct(int ranks) {
        attile_gemm_distributed_init(&args, sizeof args);
        args.m = 4 * ranks;
        args.n = 5 * ranks;
        args.k = 6;
        attile_grid_init(&grid, sizeof grid);
        grid.rows = ranks;
        grid.columns = 1;
        bind(&a, a_, args.m, args.k, 4, args.k);
        bind(&b, b_, args.k, args.n, args.k, 5);
        bind(&d, d_, args.m, args.n, args.m, 5);
        a.grid = &grid;
        args.a = &a;
        args.b = &b;
        args.d = &d;
        args.c = d.local;
        args.beta = 1;
        args.panel = 2;
    }
    SmallProduct(const SmallProduct &) = delete;
    SmallProduct &operator=(const SmallProduct &) = delete;
    std::int32_t call(attile_comm *comm) const { return attile_gemm_distributed(comm, &args); }
    bool untouched() const { return d_ == std::vector<float>(d_.size(), 0.5F); }

    attile_grid grid;
    attile_distributed_matrix a, b, d;
    attile_gemm_distributed_args args;

  private:
    static void bind(attile_distributed_matrix *matrix, std::vector<float> &memory, std::int64_t rows, std::int64_t columns,
                     std::int64_t own_rows, std::int64_t own_columns) {
        attile_distributed_matrix_init(matrix, sizeof *matrix);
        matrix->rows = rows;
        matrix->columns = columns;
        memory.assign(static_cast<std::size_t>(own_rows * own_columns), 0.5F);
        const std::int64_t shape[2] = {own_rows, own_columns};
        attile_tensor_init(&matrix->local, memory.data(), ATTILE_F32, 2, shape);
    }
    std::vector<float> a_, b_, d_;
};

class GridFaults : public OfEachKind {};

struct Change {
    const char *name;  ///< in the sentence
    std::function<void(SmallProduct &)> make;
    std::int32_t status = ATTILE_ERROR_INVALID_VALUE;
};

TEST_P(GridFaults, DisagreementNamesARankAndWhatDiffers) {
    static float none[5] = {};
    const Change changes[] = {
        {"m is 11 on rank 2 and 12", [](SmallProduct &p) { p.args.m = 11; }},
        {"n is 14", [](SmallProduct &p) { p.args.n = 14; }},
        {"k is 5", [](SmallProduct &p) { p.args.k = 5; }},
        {"alpha is 2", [](SmallProduct &p) { p.args.alpha = 2; }},
        {"beta is 0", [](SmallProduct &p) { p.args.beta = 0; }},
        {"activation is 1", [](SmallProduct &p) { p.args.activation = ATTILE_ACTIVATION_RELU; }},
        {"method is 7", [](SmallProduct &p) { p.args.method = ATTILE_METHOD_STATIONARY_B; }},
        {"panel is 3", [](SmallProduct &p) { p.args.panel = 3; }},
        {"flags is 1", [](SmallProduct &p) { p.args.flags = ATTILE_FLAG_BATCH_INVARIANT; }},
        {"bias_axis is 1",
         [](SmallProduct &p) {
             const std::int64_t five = 5;
             attile_tensor_init(&p.args.bias, none, ATTILE_F32, 1, &five);
             p.args.bias_axis = ATTILE_BIAS_COLUMNS;
         }},
        {"a->local.dtype is f16", [](SmallProduct &p) { p.a.local.dtype = p.b.local.dtype = ATTILE_F16; }},
        {"a->block_rows is 5", [](SmallProduct &p) { p.a.block_rows = 5, p.a.local.shape[0] = 2; }},
        {"b->block_columns is 1", [](SmallProduct &p) { p.b.block_columns = 1; }},
        {"d->source_column is 1", [](SmallProduct &p) { p.d.source_column = 1; }},
        {"a->grid->order is 1", [](SmallProduct &p) { p.grid.order = ATTILE_GRID_COLUMN_MAJOR; }},
        {"a->columns is 7",
         [](SmallProduct &p) {
             p.a.columns = 7;
             p.a.local.shape[1] = 7;
             p.a.local.stride[0] = 0;
         }},
    };
    for (const Change &change : changes) {
        const auto results = call_twice<SmallProduct>(ranks(3), [&](Rank &rank, SmallProduct &problem) {
            if (rank.rank == 2) change.make(problem);
        });
        for (const Result &result : results) {
            EXPECT_EQ(result.status, ATTILE_ERROR_RANKS_DISAGREE) << change.name << ": " << result.why;
            EXPECT_NE(result.why.find(change.name), std::string::npos) << change.name << ": " << result.why;
            EXPECT_NE(result.why.find("on rank 2 and"), std::string::npos) << result.why;
            EXPECT_EQ(result.afterwards, ATTILE_ERROR_COMM_BROKEN);
        }
    }
}

// One rank's own arguments are wrong: it has the reason, the others hear of it, and nothing is written.
TEST_P(GridFaults, ARankWithWrongArgumentsIsHeardOf) {
    const Change changes[] = {
        {"a is NULL", [](SmallProduct &p) { p.args.a = nullptr; }, ATTILE_ERROR_NULL_ARGUMENT},
        {"m is -1; expected 0 or more", [](SmallProduct &p) { p.args.m = -1; }, ATTILE_ERROR_INVALID_SHAPE},
        {"a->block_rows is -4; expected 0 to", [](SmallProduct &p) { p.a.block_rows = -4; }},
        {"b->block_columns is -1; expected 0 to", [](SmallProduct &p) { p.b.block_columns = -1; }},
        {"a->source_row is 4; expected -1 to 3", [](SmallProduct &p) { p.a.source_row = 4; }},
        {"a->source_column is 1; expected -1 to 0", [](SmallProduct &p) { p.a.source_column = 1; }},
        {"a->rows is -4; expected 0 to", [](SmallProduct &p) { p.a.rows = -4; }},
        {"a->row is -1; expected 0 to 16", [](SmallProduct &p) { p.a.row = -1; }},
        {"a->row is 1; expected at most 0", [](SmallProduct &p) { p.a.row = 1; }, ATTILE_ERROR_SHAPE_MISMATCH},
        {"a->grid is 4 x 2; expected rows and columns of 1 or more, for 4 ranks in all", [](SmallProduct &p) { p.grid.columns = 2; }},
        {"a->grid is -4 x -1", [](SmallProduct &p) { p.grid.rows = -4, p.grid.columns = -1; }},
        {"a->grid->order is 2", [](SmallProduct &p) { p.grid.order = 2; }},
        {"a->local.shape[0] is 3; expected 4, the rows that rank 1 has", [](SmallProduct &p) { p.a.local.shape[0] = 3; },
         ATTILE_ERROR_SHAPE_MISMATCH},
        {"c.shape[1] is 4", [](SmallProduct &p) { p.args.c.shape[1] = 4; }, ATTILE_ERROR_SHAPE_MISMATCH},
        {"beta is 1, but c is absent", [](SmallProduct &p) { p.args.c = attile_tensor{}; }},
        {"bias_axis is 1", [](SmallProduct &p) { p.args.bias_axis = ATTILE_BIAS_COLUMNS; }},
        {"bias_axis is 3", [](SmallProduct &p) { p.args.bias_axis = 3; }},
        {"activation is 9", [](SmallProduct &p) { p.args.activation = 9; }},
        {"alpha is inf", [](SmallProduct &p) { p.args.alpha = HUGE_VAL; }},
        {"transa is 5", [](SmallProduct &p) { p.args.transa = 5; }},
        {"method is 5; expected", [](SmallProduct &p) { p.args.method = ATTILE_METHOD_TREE; }},
        {"panel is -1; expected 0 to", [](SmallProduct &p) { p.args.panel = -1; }},
        {"reserved is 1", [](SmallProduct &p) { p.args.reserved = 1; }, ATTILE_ERROR_STRUCT_TOO_NEW},
        {"flags", [](SmallProduct &p) { p.args.flags = ATTILE_FLAG_NO_ALLOC; }, ATTILE_ERROR_INVALID_FLAGS},
        {"a->local.data", [](SmallProduct &p) { p.a.local.data = nullptr; }, ATTILE_ERROR_NULL_ARGUMENT},
        {"b->local", [](SmallProduct &p) { p.b.local.dtype = ATTILE_F64; }, ATTILE_ERROR_INVALID_DTYPE},
        {"d->local", [](SmallProduct &p) { p.d.local.stride[0] = 1; }, ATTILE_ERROR_INVALID_STRIDE},
        {"d->local", [](SmallProduct &p) { p.a.local.data = p.d.local.data; }, ATTILE_ERROR_ALIASING},
        {"c", [](SmallProduct &p) { p.args.c.data = static_cast<float *>(p.d.local.data) + 1; }, ATTILE_ERROR_ALIASING},
    };
    for (const Change &change : changes) {
        std::vector<int> untouched(4, 0);
        const RanksOptions options = ranks(4);
        run_ranks(options, [&](Rank &rank) {
            ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
            SmallProduct problem(4);
            if (rank.rank == 1) change.make(problem);
            EXPECT_EQ(problem.call(rank.comm), rank.rank == 1 ? change.status : ATTILE_ERROR_RANK_FAILED)
                << change.name << ": " << last_error();
            EXPECT_NE(last_error().find(change.name), std::string::npos) << change.name << ": " << last_error();
            EXPECT_EQ(last_error().rfind("gemm_distributed: ", 0), 0U) << last_error();
            untouched[static_cast<std::size_t>(rank.rank)] = problem.untouched() ? 1 : 0;
        });
        EXPECT_EQ(untouched, std::vector<int>(4, 1)) << change.name;
    }
}

TEST_P(GridFaults, WhatNoRankCanDoBreaksNothing) {
    const auto results =
        call_twice<SmallProduct>(ranks(3), [](Rank &rank, SmallProduct &problem) { problem.a.block_rows = -1 - rank.rank; });
    for (const Result &result : results) {
        EXPECT_EQ(result.status, ATTILE_ERROR_INVALID_VALUE);
        EXPECT_EQ(result.afterwards, ATTILE_OK) << result.why_afterwards;
    }
}

// The context of one rank is gone: its local call fails after all ranks have agreed.
TEST_P(GridFaults, ALocalFailureIsHeardOf) {
    for (int method = ATTILE_METHOD_STATIONARY_A; method <= ATTILE_METHOD_STATIONARY_C; ++method) {
        const auto results = call_twice<SmallProduct>(ranks(4), [&](Rank &rank, SmallProduct &problem) {
            problem.args.method = method;
            if (rank.rank == 2) attile_context_destroy(rank.context);
        });
        for (std::size_t rank = 0; rank < 4; ++rank) {
            EXPECT_EQ(results[rank].status, rank == 2 ? ATTILE_ERROR_INVALID_CONTEXT : ATTILE_ERROR_RANK_FAILED) << results[rank].why;
            EXPECT_NE(results[rank].why.find("was destroyed"), std::string::npos) << results[rank].why;
            EXPECT_EQ(results[rank].afterwards, ATTILE_ERROR_COMM_BROKEN);
        }
    }
}

TEST_P(GridFaults, NoMemoryOnOneRank) {
    for (int method = ATTILE_METHOD_STATIONARY_A; method <= ATTILE_METHOD_STATIONARY_C; ++method)
        expect_failures_of_memory<SmallProduct>([&] { return ranks(3); }, [&](SmallProduct &call) { call.args.method = method; });
}

INSTANTIATE_TEST_SUITE_P(Transports, GridFaults, testing::Values(Kind::kThreads, Kind::kCallbacks, Kind::kBareCallbacks), name_of);

TEST(GridQuery, SaysWhichMethodAndWhy) {
    RanksOptions options;
    options.ranks = 4;
    run_ranks(options, [](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        SmallProduct call(4);
        call.args.panel = 0;
        attile_distributed_support support;
        attile_distributed_support_init(&support, sizeof support);
        const auto ask = [&] { EXPECT_EQ(attile_gemm_distributed_query(rank.comm, &call.args, &support), ATTILE_OK) << last_error(); };
        ask();  // rows of A are gathered
        EXPECT_EQ(support.method, ATTILE_METHOD_STATIONARY_C);
        EXPECT_EQ(support.level, ATTILE_SUPPORT_NATIVE);
        EXPECT_EQ(support.bytes_sent, 3 * 4 * 6 * 4);
        EXPECT_EQ(support.flops, 2.0 * 16 * 20 * 6);
        EXPECT_STREQ(support.kernel, "reference_gemm");
        EXPECT_EQ(std::string(support.text).rfind("stationary C: ranks send ", 0), 0U) << support.text;
        EXPECT_NE(std::string(support.text).find("panels are 6 wide"), std::string::npos) << support.text;
        call.args.method = ATTILE_METHOD_STATIONARY_A;  // all of B but the own part, and all sums but the own
        ask();
        EXPECT_EQ(support.method, ATTILE_METHOD_STATIONARY_A);
        EXPECT_EQ(support.bytes_sent, (3 * 5 * 6 + 4 * 15) * 4);
        EXPECT_EQ(std::string(support.text).rfind("stationary A (asked for): ", 0), 0U) << support.text;
        call.args.m = 0;
        ask();
        EXPECT_EQ(support.flops, 0);
        EXPECT_EQ(support.bytes_sent, 0);
        call.a.block_rows = -1;
        EXPECT_EQ(attile_gemm_distributed_query(rank.comm, &call.args, &support), ATTILE_ERROR_INVALID_VALUE);
        EXPECT_EQ(attile_gemm_distributed_query(nullptr, &call.args, &support), ATTILE_ERROR_INVALID_COMM);
    });
}

// Wide panels of large matrices, of which no data are looked at.
TEST(GridQuery, SaysHowWidePanelsAre) {
    RanksOptions options;
    options.ranks = 4;
    run_ranks(options, [](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        attile_grid grid;
        attile_grid_init(&grid, sizeof grid);
        grid.rows = grid.columns = 2;
        const auto panel = [&](std::int64_t extent, std::int32_t dtype) {
            attile_distributed_matrix matrix;
            attile_distributed_matrix_init(&matrix, sizeof matrix);
            matrix.grid = &grid;
            matrix.rows = matrix.columns = extent;
            const std::int64_t shape[2] = {extent / 2, extent / 2};
            attile_tensor_init(&matrix.local, nullptr, dtype, 2, shape);
            attile_gemm_distributed_args args;
            attile_gemm_distributed_init(&args, sizeof args);
            args.m = args.n = args.k = extent;
            args.a = args.b = args.d = &matrix;
            attile_distributed_support support;
            attile_distributed_support_init(&support, sizeof support);
            EXPECT_EQ(attile_gemm_distributed_query(rank.comm, &args, &support), ATTILE_OK) << last_error();
            EXPECT_EQ(support.method, ATTILE_METHOD_STATIONARY_C);
            return std::string(support.text);
        };
        EXPECT_NE(panel(8192, ATTILE_F64).find("panels are 512 wide"), std::string::npos);
        EXPECT_NE(panel(8192, ATTILE_F16).find("panels are 2048 wide"), std::string::npos);
        EXPECT_NE(panel(510, ATTILE_F64).find("panels are 510 wide"), std::string::npos);
        EXPECT_NE(panel(700, ATTILE_F64).find("panels are 700 wide"), std::string::npos);
    });
}

/// How k lies over the coordinates of a matrix.
struct Cut {
    std::int64_t block;
    std::int32_t source = 0;
    std::int64_t origin = 0;
};

/// A row of length k over six ranks times a column over three, which two ranks each have.
struct LongProduct {
    LongProduct(int rank, std::int64_t k, const Cut &cut_a, const Cut &cut_b) {
        attile_grid_init(&grid_b, sizeof grid_b);
        grid_b.rows = 3;
        grid_b.columns = 2;
        for (attile_distributed_matrix *matrix : {&a, &b, &d}) attile_distributed_matrix_init(matrix, sizeof *matrix);
        a.rows = b.columns = d.rows = d.columns = 1;
        a.columns = cut_a.origin + k;
        a.block_columns = cut_a.block;
        a.source_column = cut_a.source;
        a.column = cut_a.origin;
        b.grid = &grid_b;
        b.rows = cut_b.origin + k;
        b.block_rows = cut_b.block;
        b.source_row = cut_b.source;
        b.source_column = ATTILE_REPLICATED;
        b.row = cut_b.origin;
        for (attile_distributed_matrix *matrix : {&a, &b, &d}) {
            std::int64_t shape[2];
            EXPECT_EQ(attile_distributed_extents(matrix, rank, kRanks, &shape[0], &shape[1]), ATTILE_OK) << last_error();
            attile_tensor_init(&matrix->local, nullptr, ATTILE_F32, 2, shape);
        }
        attile_gemm_distributed_init(&args, sizeof args);
        args.m = args.n = 1;
        args.k = k;
        args.a = &a;
        args.b = &b;
        args.d = &d;
        args.method = ATTILE_METHOD_STATIONARY_A;
    }
    LongProduct(const LongProduct &) = delete;
    LongProduct &operator=(const LongProduct &) = delete;

    std::int64_t bytes_sent(attile_comm *comm) const {
        attile_distributed_support support;
        attile_distributed_support_init(&support, sizeof support);
        EXPECT_EQ(attile_gemm_distributed_query(comm, &args, &support), ATTILE_OK) << last_error();
        return support.bytes_sent;
    }
    /// Of so many elements of the column that ranks lack, and the sums but one.
    static std::int64_t bytes_of(std::int64_t lacking) { return (lacking + kRanks - 1) * 4 / kRanks; }
    /// Of the first `k`, counted one by one.
    static std::int64_t lacking(std::int64_t k, const Cut &cut_a, const Cut &cut_b) {
        std::int64_t count = 0;
        for (std::int64_t i = 0; i < k; ++i) {
            const std::int64_t owner = ((cut_a.origin + i) / cut_a.block + cut_a.source) % kRanks;
            if (((cut_b.origin + i) / cut_b.block + cut_b.source) % 3 != owner / 2) ++count;
        }
        return count;
    }

    static constexpr int kRanks = 6;
    attile_grid grid_b;
    attile_distributed_matrix a, b, d;
    attile_gemm_distributed_args args;
};

// What is sent is counted without a list of blocks: 2^40 of one element take no longer than a few.
TEST(GridQuery, CountsBytesOfAnyLength) {
    RanksOptions options;
    options.ranks = LongProduct::kRanks;
    run_ranks(options, [](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        Random random(3);
        for (int i = 0; i < 300; ++i) {
            const auto cut = [&](std::int32_t coordinates) -> Cut {
                return {random.between(1, 9), static_cast<std::int32_t>(random.between(0, coordinates - 1)), random.between(0, 40)};
            };
            const Cut cut_a = cut(LongProduct::kRanks), cut_b = cut(3);
            const std::int64_t k = random.between(1, 400);
            EXPECT_EQ(LongProduct(rank.rank, k, cut_a, cut_b).bytes_sent(rank.comm),
                      LongProduct::bytes_of(LongProduct::lacking(k, cut_a, cut_b)))
                << "k " << k << ", a " << cut_a.block << " " << cut_a.source << " " << cut_a.origin << ", b " << cut_b.block << " "
                << cut_b.source << " " << cut_b.origin;
        }
        constexpr std::int64_t kMost = std::int64_t{1} << 40;
        const Cut one = {1, 4, 7}, five = {5, 1, 3};
        const std::int64_t k = kMost - 7, period = 30;
        const std::int64_t lacking = k / period * LongProduct::lacking(period, one, five) + LongProduct::lacking(k % period, one, five);
        EXPECT_EQ(LongProduct(rank.rank, k, one, five).bytes_sent(rank.comm), LongProduct::bytes_of(lacking));
        // Rounds whose common multiple is far, of few blocks and of very many: a third of the column is in place.
        const double two_thirds = static_cast<double>(kMost) / 3 * 2 / LongProduct::kRanks * 4;
        for (const Cut &other : {Cut{0}, Cut{185363}}) {
            for (const std::int64_t block : {1, 1 << 17})
                EXPECT_NEAR(static_cast<double>(LongProduct(rank.rank, kMost, {block}, other).bytes_sent(rank.comm)), two_thirds,
                            1e-4 * two_thirds);
        }
    });
}

// Nothing is multiplied, however long k is: elements of A and B are not looked at.
TEST(GridQuery, NothingToMultiplyTakesNoTime) {
    RanksOptions options;
    options.ranks = LongProduct::kRanks;
    run_ranks(options, [](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        for (const std::int32_t method : {ATTILE_METHOD_AUTO, ATTILE_METHOD_STATIONARY_A, ATTILE_METHOD_STATIONARY_B}) {
            LongProduct call(rank.rank, std::int64_t{1} << 40, {1}, {2});
            call.args.method = method;
            call.args.alpha = 0;
            EXPECT_EQ(call.bytes_sent(rank.comm), 0);
            float element = 7, result = 7;
            for (attile_distributed_matrix *matrix : {&call.a, &call.b}) {
                matrix->local.data = &element;
                std::fill_n(matrix->local.stride, 2, 0);
            }
            call.d.local.data = &result;
            EXPECT_EQ(attile_gemm_distributed(rank.comm, &call.args), ATTILE_OK) << last_error();
            EXPECT_EQ(result, call.d.local.shape[1] == 0 ? 7 : 0);
        }
    });
}

TEST(GridExtents, AreNumroc) {
    attile_distributed_matrix matrix;
    attile_distributed_matrix_init(&matrix, sizeof matrix);
    attile_grid grid;
    attile_grid_init(&grid, sizeof grid);
    grid.rows = 2;
    grid.columns = 3;
    matrix.grid = &grid;
    matrix.rows = 10;
    matrix.columns = 7;
    matrix.block_rows = 4;
    matrix.source_row = 1;
    std::int64_t rows = 0, columns = 0;
    EXPECT_EQ(attile_distributed_extents(&matrix, 0, 6, &rows, &columns), ATTILE_OK);
    EXPECT_EQ(rows, 4);  // block 1
    EXPECT_EQ(columns, 3);
    EXPECT_EQ(attile_distributed_extents(&matrix, 5, 6, &rows, &columns), ATTILE_OK);
    EXPECT_EQ(rows, 6);  // blocks 0 and 2
    EXPECT_EQ(columns, 1);
    matrix.source_column = ATTILE_REPLICATED;
    EXPECT_EQ(attile_distributed_extents(&matrix, 5, 6, nullptr, &columns), ATTILE_OK);
    EXPECT_EQ(columns, 7);
    EXPECT_EQ(attile_distributed_extents(&matrix, 6, 6, &rows, &columns), ATTILE_ERROR_INVALID_VALUE);
    EXPECT_EQ(attile_distributed_extents(&matrix, 0, 5, &rows, &columns), ATTILE_ERROR_INVALID_VALUE);
    EXPECT_EQ(attile_distributed_extents(nullptr, 0, 6, &rows, &columns), ATTILE_ERROR_NULL_ARGUMENT);
}

}  // namespace
}  // namespace attile::test
