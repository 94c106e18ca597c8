// SPDX-License-Identifier: Apache-2.0
// What holds of every case however it is run.
#pragma once

#include <cstdint>
#include <vector>

#include "over_ranks.h"

namespace attile::test {

/// Runs the jobs by threads, then by callbacks with and without collectives, whose messages arrive in any order: all right, with the same
/// bits.
void expect_the_same_bits(const std::vector<Job> &jobs);

/// A case of so many rows and keys, twice by each of two runs that `seed` draws: right, with the same bits both times.
void expect_random_runs(const CaseOverRanks &test_case, std::int64_t rows, std::int64_t keys, std::uint64_t seed);

}  // namespace attile::test
