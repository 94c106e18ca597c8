// SPDX-License-Identifier: Apache-2.0
// Cases of products of groups of rows.
#pragma once

#include <attile/attile.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "test_tensor.h"

namespace attile::test {

struct GroupedCase {
    std::int32_t dtype = ATTILE_F32, out_dtype = ATTILE_F32, bias_dtype = ATTILE_F32;
    std::vector<std::int64_t> rows;       ///< Of each group.
    std::int64_t before = 0, behind = 0;  ///< Rows of no group: ahead of the first group, and after the last.
    std::int64_t n = 7, k = 9;
    double alpha = 1, beta = 0;
    bool c_given = false;   ///< c is passed although beta is 0: full of NaN, and not to be read
    bool in_place = false;  ///< c is d
    bool has_bias = false;  ///< for each group
    bool one_bias = false;  ///< or the same for all
    bool one_b = false;     ///< b has extent 1 along the groups
    std::int32_t activation = ATTILE_ACTIVATION_NONE;
    std::vector<std::int64_t> offsets;  ///< In place of those that rows and before make; they may be wrong. As many as groups and one more.
    Layout a_layout = {}, b_layout = {}, c_layout = {}, d_layout = {}, bias_layout = {}, offsets_layout = {};
    std::uint32_t flags = 0;
    bool special = false;  ///< A NaN and an infinity in a.
    std::uint64_t seed = 1;
    std::int32_t b_dtype = 0;      ///< of b, if it is not that of a: i8, 8-bit floats, or numbers of 4 bits
    std::int64_t depth_group = 0;  ///< Numbers of b along k that share a scale; 0: b has none.
    std::int64_t width_group = 0;  ///< And along n; 0: all.
    bool zeros = false;            ///< b_zero, of u4

    std::int32_t type_of_b() const { return b_dtype != 0 ? b_dtype : dtype; }
    std::int64_t total_rows() const { return std::accumulate(rows.begin(), rows.end(), before + behind); }
};

struct Case;
enum class Tier;
void append_grouped_cases(std::vector<Case> &list, Tier tier);
GroupedCase random_grouped(std::uint64_t seed);
std::string describe(const GroupedCase &c);

}  // namespace attile::test
