// SPDX-License-Identifier: Apache-2.0
// Products over ranks whose results are known exactly: entries are small whole numbers, so that sums in any order are the same.
#pragma once

#include <attile/attile_distributed.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sharded_case.h"
#include "test_random.h"

namespace attile::test {

/// How a matrix lies over the ranks, and where in it the part of the call begins.
struct GridSide {
    std::int32_t rows = 1, columns = 0, order = 0;  ///< of the grid; 0 columns: no grid is passed
    std::int64_t block_rows = 0, block_columns = 0;
    std::int32_t source_row = 0, source_column = 0;
    std::int64_t row = 0, column = 0;    ///< origin
    std::int64_t below = 0, behind = 0;  ///< rows and columns of the matrix beyond the part
    bool row_major = true;               ///< in a rank's memory; of odd ranks the other way where `mixed`
    bool mixed = false;
};

struct GridProduct {
    std::int32_t dtype = ATTILE_F32, out_dtype = ATTILE_F32;
    std::int64_t m = 0, n = 0, k = 0;
    bool transa = false, transb = false;
    double alpha = 1, beta = 0;
    bool c_is_d = false;
    std::int32_t bias_axis = 0, activation = 0, method = 0;
    std::int64_t panel = 0;
    std::uint64_t seed = 1;
    bool wide_range = false;  ///< entries of very different sizes: sums in another order are others, and are judged within rounding
    bool positive = false;    ///< entries of one sign: sums grow
    GridSide a, b, d;
};

std::string describe(const GridProduct &product);

/// Any layouts, extents, types, options and methods over so many ranks.
GridProduct random_product(int ranks, std::uint64_t seed);

/// Runs it on this rank, of so many, and judges this rank's part: empty, or what is wrong. What lies outside the parts must not be read or
/// written. `bits`: of d's part, if wanted.
std::string run_product(const RankOfCase &rank, int ranks, const GridProduct &product, std::vector<std::byte> *bits = nullptr);

}  // namespace attile::test
