// SPDX-License-Identifier: Apache-2.0
// What holds of every case however it is run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "over_ranks.h"

namespace attile::test {

/// Every layout, method and option over so many ranks on every backend. `made` gives the case of an option and a type, and keeps it; types
/// take it in turn over layouts and methods, but in the long list.
void expect_every_layout_method_and_option(int ranks,
                                           const std::function<const CaseOverRanks &(std::size_t option, std::int32_t dtype)> &made);

/// Runs the jobs by threads, then by callbacks with and without collectives, whose messages arrive in any order: all right, with the same
/// bits.
void expect_the_same_bits(const std::vector<Job> &jobs);

/// A case of so many rows and keys, twice by each of two runs that `seed` draws: right, with the same bits both times.
void expect_random_runs(const CaseOverRanks &test_case, std::int64_t rows, std::int64_t keys, std::uint64_t seed);

}  // namespace attile::test
