// SPDX-License-Identifier: Apache-2.0
// Products over a BLACS grid against ScaLAPACK's own: the same arguments, the same results within rounding, and nothing else written.
#include <attile/attile_distributed.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "mpi_rank.h"
#include "scalapack_names.h"
#include "test_random.h"

namespace attile::test {
namespace {

/// A BLACS grid of all ranks.
class BlacsGrid {
  public:
    BlacsGrid(int rows, int columns, const char *order) : rows_(rows), columns_(columns) {
        const int none = -1, system = 0;
        blacs_get_(&none, &system, &context_);
        blacs_gridinit_(&context_, order, &rows_, &columns_);
        int all_rows = 0, all_columns = 0;
        blacs_gridinfo_(&context_, &all_rows, &all_columns, &row_, &column_);
    }
    ~BlacsGrid() {
        attile_grid_close(context_);
        blacs_gridexit_(&context_);
    }
    BlacsGrid(const BlacsGrid &) = delete;
    BlacsGrid &operator=(const BlacsGrid &) = delete;

    int context() const { return context_; }
    int rows() const { return rows_; }
    int columns() const { return columns_; }
    int local_rows(int extent, int block, int source) const { return numroc_(&extent, &block, &row_, &source, &rows_); }
    int local_columns(int extent, int block, int source) const { return numroc_(&extent, &block, &column_, &source, &columns_); }

  private:
    int rows_, columns_, context_ = -1, row_ = -1, column_ = -1;
};

/// An operand of a size and place at random; its part of `rows` by `columns` begins at (i, j), from 1.
template <class T>
struct Operand {
    Operand(const BlacsGrid &grid, int rows, int columns, Random &shared, Random &own) {
        const auto number = [&](int low, int high) { return static_cast<int>(shared.between(low, high)); };
        i = number(1, 9);
        j = number(1, 9);
        const int all_rows = i - 1 + rows + number(0, 4), all_columns = j - 1 + columns + number(0, 4);
        const int block_rows = number(1, 12), block_columns = number(1, 12);
        const int source_row = number(0, grid.rows() - 1), source_column = number(0, grid.columns() - 1);
        const int lines = grid.local_rows(all_rows, block_rows, source_row),
                  count = grid.local_columns(all_columns, block_columns, source_column);
        const int leading = std::max(1, lines) + number(0, 3);
        descriptor = {1, grid.context(), all_rows, all_columns, block_rows, block_columns, source_row, source_column, leading};
        data.resize(static_cast<std::size_t>(leading) * static_cast<std::size_t>(std::max(1, count)));
        for (T &value : data) value = static_cast<T>(own.uniform() - 0.5);
    }
    int i, j;
    std::array<int, 9> descriptor;
    std::vector<T> data;
};

struct Names {
    static constexpr auto theirs(double) { return pdgemm_; }
    static constexpr auto theirs(float) { return psgemm_; }
    static constexpr auto ours(double) { return attile_pdgemm_; }
    static constexpr auto ours(float) { return attile_psgemm_; }
};

template <class T>
void compare(const BlacsGrid &grid, std::uint64_t seed) {
    Random shared(seed), own(seed * 100 + static_cast<std::uint64_t>(world_rank()));
    const char transa = shared.pick({'N', 'T', 'C', 'n', 't'}), transb = shared.pick({'N', 'T', 'C', 'n', 'c'});
    const auto extent = [&] { return static_cast<int>(shared.chance(0.1) ? shared.between(0, 1) : shared.between(2, 70)); };
    const int m = extent(), n = extent(), k = extent();
    const bool plain_a = transa == 'N' || transa == 'n', plain_b = transb == 'N' || transb == 'n';
    const Operand<T> a(grid, plain_a ? m : k, plain_a ? k : m, shared, own), b(grid, plain_b ? k : n, plain_b ? n : k, shared, own);
    Operand<T> c(grid, m, n, shared, own);
    const T alpha = shared.pick({T(1), T(-0.5), T(0)}), beta = shared.pick({T(0), T(1), T(0.25)});
    std::vector<T> right = c.data;
    Names::theirs(T())(&transa, &transb, &m, &n, &k, &alpha, a.data.data(), &a.i, &a.j, a.descriptor.data(), b.data.data(), &b.i, &b.j,
                       b.descriptor.data(), &beta, right.data(), &c.i, &c.j, c.descriptor.data());
    const int status = Names::ours(T())(&transa, &transb, &m, &n, &k, &alpha, a.data.data(), &a.i, &a.j, a.descriptor.data(), b.data.data(),
                                        &b.i, &b.j, b.descriptor.data(), &beta, c.data.data(), &c.i, &c.j, c.descriptor.data());
    ASSERT_EQ(status, ATTILE_OK) << last_error();
    const double allowed = (k + 4) * 0.25 * static_cast<double>(std::numeric_limits<T>::epsilon());
    for (std::size_t at = 0; at < right.size(); ++at) {
        ASSERT_LE(std::fabs(static_cast<double>(c.data[at]) - static_cast<double>(right[at])), allowed)
            << "seed " << seed << " element " << at << ": " << c.data[at] << ", ScaLAPACK's " << right[at] << "; " << transa << transb
            << " m " << m << " n " << n << " k " << k;
    }
}

class Scalapack : public testing::Test {
  protected:
    void SetUp() override { ASSERT_EQ(world_ranks(), 4); }
};

TEST_F(Scalapack, RandomProductsOnEveryGrid) {
    const struct {
        int rows, columns;
        const char *order;
    } grids[] = {{2, 2, "Row"}, {1, 4, "Row"}, {4, 1, "Column"}, {2, 2, "Column"}};
    std::uint64_t seed = 0;
    for (const auto &shape : grids) {
        const BlacsGrid grid(shape.rows, shape.columns, shape.order);
        for (int i = 0; i < 40; ++i) {
            compare<double>(grid, ++seed);
            compare<float>(grid, ++seed);
            if (HasFatalFailure()) return;
        }
    }
}

// A context is made once for a grid, and again after it was closed.
TEST_F(Scalapack, GridsOfOneNumber) {
    for (int i = 0; i < 3; ++i) {
        const BlacsGrid grid(i == 1 ? 4 : 2, i == 1 ? 1 : 2, i == 2 ? "Column" : "Row");
        compare<double>(grid, 1000 + static_cast<std::uint64_t>(i));
        compare<double>(grid, 2000 + static_cast<std::uint64_t>(i));
    }
}

TEST_F(Scalapack, ContextsThatAreNone) {
    const std::array<int, 9> descriptor = {1, 99, 4, 4, 2, 2, 0, 0, 4};
    double data[16] = {};
    EXPECT_EQ(
        attile_pdgemm('N', 'N', 4, 4, 4, 1, data, 1, 1, descriptor.data(), data, 1, 1, descriptor.data(), 0, data, 1, 1, descriptor.data()),
        ATTILE_ERROR_INVALID_COMM);
    EXPECT_NE(last_error().find("no BLACS grid that this rank is in"), std::string::npos) << last_error();
}

}  // namespace
}  // namespace attile::test
