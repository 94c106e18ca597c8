// SPDX-License-Identifier: Apache-2.0
// ScaLAPACK's names over ranks that are threads: descriptors, Fortran's calls, what CTXT_ stands for.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ranks.h"

namespace attile::test {
namespace {

constexpr int kRows = 2, kColumns = 2, kRanks = kRows * kColumns;
constexpr std::int32_t kM = 11, kN = 7, kK = 9;

using Descriptor = std::array<std::int32_t, 9>;

/// A whole matrix of `rows` by `columns` in blocks of 3 by 2 on a grid of 2 by 2 in the order of rows, the first block in row 1.
template <class T>
struct Matrix {
    Matrix(std::int32_t context, int rank, std::int32_t rows, std::int32_t columns, double factor) {
        const int row = rank / kColumns, column = rank % kColumns;
        for (std::int32_t j = 0; j < columns; ++j) {
            if (j / 2 % kColumns != column) continue;
            lines = 0;
            for (std::int32_t i = 0; i < rows; ++i) {
                if ((i / 3 + 1) % kRows != row) continue;
                ++lines;
                data.push_back(static_cast<T>(value(factor, i, j)));
            }
            data.push_back(T(-1));  // LLD_ is one more than there are rows
        }
        if (lines < 0) lines = 0;
        descriptor = {1, context, rows, columns, 3, 2, 1, 0, lines + 1};
    }
    static double value(double factor, std::int32_t i, std::int32_t j) { return factor * (i % 5 - 2) + j % 3; }
    /// The element of this rank at local row and column.
    const T &at(std::int32_t i, std::int32_t j) const { return data[static_cast<std::size_t>(j * (lines + 1) + i)]; }

    std::int32_t lines = -1;
    std::vector<T> data;
    Descriptor descriptor;
};

/// A context number for the rank.
std::int32_t open(const Rank &rank) {
    attile_grid grid;
    attile_grid_init(&grid, sizeof grid);
    grid.rows = kRows;
    grid.columns = kColumns;
    std::int32_t context = 0;
    EXPECT_EQ(attile_grid_open(rank.comm, &grid, &context), ATTILE_OK) << last_error();
    EXPECT_GT(context, 1 << 30);
    return context;
}

void run_four(const std::function<void(Rank &)> &body) {
    RanksOptions options;
    options.ranks = kRanks;
    run_ranks(options, [&](Rank &rank) {
        ASSERT_EQ(rank.created, ATTILE_OK) << rank.why;
        body(rank);
    });
}

/// C = 2 A^T B - C of the parts that begin at (2, 3), (1, 2) and (3, 1), from 1.
template <class T>
void expect_product(const Rank &rank, const Matrix<T> &c) {
    std::int32_t own_column = 0;
    for (std::int32_t j = 0; j < kN + 2; ++j) {
        if (j / 2 % kColumns != rank.rank % kColumns) continue;
        std::int32_t own_row = 0;
        for (std::int32_t i = 0; i < kM + 4; ++i) {
            if ((i / 3 + 1) % kRows != rank.rank / kColumns) continue;
            double expected = Matrix<T>::value(1, i, j);
            if (i >= 2 && i < 2 + kM && j < kN) {
                double sum = 0;
                for (std::int32_t k = 0; k < kK; ++k) sum += Matrix<T>::value(2, k + 1, i - 2 + 2) * Matrix<T>::value(3, k, j + 1);
                expected = 2 * sum - expected;
            }
            ASSERT_EQ(static_cast<double>(c.at(own_row, own_column)), expected) << i << " " << j << " on rank " << rank.rank;
            ++own_row;
        }
        ++own_column;
    }
}

template <class T, class Call>
void run_product(Call &&call) {
    run_four([&](Rank &rank) {
        const std::int32_t context = open(rank);
        const Matrix<T> a(context, rank.rank, kK + 3, kM + 2, 2), b(context, rank.rank, kK, kN + 1, 3);
        Matrix<T> c(context, rank.rank, kM + 4, kN + 2, 1);
        ASSERT_EQ(call(a, b, c), ATTILE_OK) << last_error();
        expect_product(rank, c);
        attile_grid_close(context);
    });
}

TEST(Scalapack, Pdgemm) {
    run_product<double>([](const auto &a, const auto &b, auto &c) {
        return attile_pdgemm('T', ATTILE_NO_TRANS, kM, kN, kK, 2, a.data.data(), 2, 3, a.descriptor.data(), b.data.data(), 1, 2,
                             b.descriptor.data(), -1, c.data.data(), 3, 1, c.descriptor.data());
    });
}

TEST(Scalapack, Psgemm) {
    run_product<float>([](const auto &a, const auto &b, auto &c) {
        return attile_psgemm(ATTILE_CONJ_TRANS, 'n', kM, kN, kK, 2, a.data.data(), 2, 3, a.descriptor.data(), b.data.data(), 1, 2,
                             b.descriptor.data(), -1, c.data.data(), 3, 1, c.descriptor.data());
    });
}

TEST(Scalapack, FortranCallsByReference) {
    const std::int32_t m = kM, n = kN, k = kK, one = 1, two = 2, three = 3;
    run_product<double>([&](const auto &a, const auto &b, auto &c) {
        const double alpha = 2, beta = -1;
        return attile_pdgemm_("Trans", "No", &m, &n, &k, &alpha, a.data.data(), &two, &three, a.descriptor.data(), b.data.data(), &one,
                              &two, b.descriptor.data(), &beta, c.data.data(), &three, &one, c.descriptor.data());
    });
    run_product<float>([&](const auto &a, const auto &b, auto &c) {
        const float alpha = 2, beta = -1;
        return attile_psgemm_("c", "n", &m, &n, &k, &alpha, a.data.data(), &two, &three, a.descriptor.data(), b.data.data(), &one, &two,
                              b.descriptor.data(), &beta, c.data.data(), &three, &one, c.descriptor.data());
    });
}

struct Wrong {
    std::int32_t field, value;
    const char *sentence;
};

// One rank's descriptor is wrong: it has the reason, and the others hear of it.
TEST(Scalapack, WrongDescriptorsAreHeardOf) {
    const Wrong wrongs[] = {
        {0, 502, "DTYPE_ of desca is 502; expected 1 to 1"},
        {2, -1, "M_ of desca is -1; expected 0"},
        {4, 0, "MB_ of desca is 0; expected 1"},
        {5, -3, "NB_ of desca is -3; expected 1"},
        {6, 2, "RSRC_ of desca is 2; expected -1 to 1"},
        {7, -2, "CSRC_ of desca is -2; expected -1 to 1"},
        {8, 5, "LLD_ of desca is 5; expected 6"},
    };
    for (const Wrong &wrong : wrongs) {
        run_four([&](Rank &rank) {
            const std::int32_t context = open(rank);
            Matrix<double> a(context, rank.rank, kM, kK, 2), b(context, rank.rank, kK, kN, 3), c(context, rank.rank, kM, kN, 1);
            if (rank.rank == 2) a.descriptor[static_cast<std::size_t>(wrong.field)] = wrong.value;
            const std::int32_t status = attile_pdgemm('N', 'N', kM, kN, kK, 1, a.data.data(), 1, 1, a.descriptor.data(), b.data.data(), 1,
                                                      1, b.descriptor.data(), 0, c.data.data(), 1, 1, c.descriptor.data());
            EXPECT_EQ(status, rank.rank == 2 ? ATTILE_ERROR_INVALID_VALUE : ATTILE_ERROR_RANK_FAILED);
            EXPECT_NE(last_error().find(wrong.sentence), std::string::npos) << last_error();
            EXPECT_EQ(last_error().rfind("pdgemm: ", 0), 0U) << last_error();
            attile_grid_close(context);
        });
    }
}

// Wrong on every rank: nothing is written, and the communicator goes on.
TEST(Scalapack, WrongArgumentsLeaveTheCommunicatorUsable) {
    run_four([&](Rank &rank) {
        const std::int32_t context = open(rank);
        const Matrix<double> a(context, rank.rank, kM, kK, 2), b(context, rank.rank, kK, kN, 3);
        Matrix<double> c(context, rank.rank, kM, kN, 1);
        const std::vector<double> before = c.data;
        const auto call = [&](std::int32_t transa, std::int64_t m, std::int64_t ia, const std::int32_t *descb) {
            return attile_pdgemm(transa, 'N', m, kN, kK, 1, a.data.data(), ia, 1, a.descriptor.data(), b.data.data(), 1, 1, descb, 0,
                                 c.data.data(), 1, 1, c.descriptor.data());
        };
        const std::int32_t *descb = b.descriptor.data();
        EXPECT_EQ(call('X', kM, 1, descb), ATTILE_ERROR_INVALID_VALUE);
        EXPECT_NE(last_error().find("transa is 88"), std::string::npos) << last_error();
        EXPECT_EQ(call(0, kM, 1, descb), ATTILE_ERROR_INVALID_VALUE);
        EXPECT_EQ(call('N', -1, 1, descb), ATTILE_ERROR_INVALID_SHAPE);
        EXPECT_EQ(call('N', kM, 0, descb), ATTILE_ERROR_INVALID_VALUE);
        EXPECT_NE(last_error().find("ia is 0; expected 1 to 12"), std::string::npos) << last_error();
        EXPECT_EQ(call('N', kM, 2, descb), ATTILE_ERROR_SHAPE_MISMATCH);
        Descriptor other = b.descriptor;
        other[1] = context + 1;
        EXPECT_EQ(call('N', kM, 1, other.data()), ATTILE_ERROR_INVALID_VALUE);
        EXPECT_NE(last_error().find("CTXT_ of descb is"), std::string::npos) << last_error();
        EXPECT_EQ(call('N', kM, 1, nullptr), ATTILE_ERROR_NULL_ARGUMENT);
        EXPECT_EQ(c.data, before);
        EXPECT_EQ(call('N', kM, 1, descb), ATTILE_OK) << last_error();
        attile_grid_close(context);
    });
}

TEST(Scalapack, NumbersThatAreNotOpen) {
    run_four([&](Rank &rank) {
        const std::int32_t context = open(rank), second = open(rank);
        EXPECT_NE(context, second);
        Matrix<double> a(context, rank.rank, kM, kM, 2);
        const auto call = [&] {
            return attile_pdgemm('N', 'N', 0, kM, kM, 1, a.data.data(), 1, 1, a.descriptor.data(), a.data.data(), 1, 1, a.descriptor.data(),
                                 0, a.data.data(), 1, 1, a.descriptor.data());
        };
        EXPECT_EQ(call(), ATTILE_OK) << last_error();
        attile_grid_close(context);
        attile_grid_close(context);
        EXPECT_EQ(call(), ATTILE_ERROR_INVALID_COMM);
        a.descriptor[1] = 0;
        EXPECT_EQ(call(), ATTILE_ERROR_INVALID_COMM);
        EXPECT_NE(last_error().find("no BLACS"), std::string::npos) << last_error();
        a.descriptor[1] = second;
        attile_comm_destroy(rank.comm);
        rank.comm = nullptr;
        EXPECT_EQ(call(), ATTILE_ERROR_INVALID_COMM);
        EXPECT_NE(last_error().find("was destroyed"), std::string::npos) << last_error();
        attile_grid_close(second);
    });
}

TEST(Scalapack, GridsThatDoNotMatch) {
    run_four([&](Rank &rank) {
        attile_grid grid;
        attile_grid_init(&grid, sizeof grid);
        std::int32_t context = 5;
        for (const auto &[rows, columns] : {std::pair<int, int>{2, 3}, {0, 4}, {-2, -2}, {1, 2}}) {
            grid.rows = rows;
            grid.columns = columns;
            EXPECT_EQ(attile_grid_open(rank.comm, &grid, &context), ATTILE_ERROR_INVALID_VALUE);
            EXPECT_NE(last_error().find("for 4 ranks in all"), std::string::npos) << last_error();
            EXPECT_EQ(context, 0);
        }
        EXPECT_EQ(attile_grid_open(rank.comm, nullptr, nullptr), ATTILE_ERROR_NULL_ARGUMENT);
        EXPECT_EQ(attile_grid_open(nullptr, nullptr, &context), ATTILE_ERROR_INVALID_COMM);
        EXPECT_EQ(attile_grid_open(rank.comm, nullptr, &context), ATTILE_OK);
        attile_grid_close(context);
    });
}

}  // namespace
}  // namespace attile::test
