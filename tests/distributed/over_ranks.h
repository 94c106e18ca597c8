// SPDX-License-Identifier: Apache-2.0
// Sharded cases (tools/cases) on a group of ranks that are threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ranks.h"
#include "sharded_case.h"

namespace attile::test {

struct RunOfCase : ShardedRun {
    std::string backend = "reference";
    Mail *mail = nullptr;
    std::function<void(int rank, attile_comm_options *)> join = nullptr;  ///< as RanksOptions has it
    std::vector<std::string> backends;                                    ///< likewise
    Placement placement = Placement::kHost;
};

std::string describe(const RunOfCase &run);

struct Job {
    const CaseOverRanks *test_case;
    RunOfCase run;
    std::string wrong;             ///< Empty, or what is wrong.
    std::vector<std::byte> bytes;  ///< Of all results.
};

/// Runs one after the other on one group of ranks and judges. All are of the first one's ranks, backend and transport.
void run_jobs(std::vector<Job> &jobs);

/// One job on a group of its own.
std::string run_case(const CaseOverRanks &test_case, const RunOfCase &run, std::vector<std::byte> *bytes = nullptr);

/// The backends that tests run on: ATTILE_TEST_BACKEND, or reference and cpu.
const std::vector<std::string> &backends();
bool full_list();  ///< ATTILE_TEST_TIER
/// Of an environment variable. Builds that take long look at fewer.
std::uint64_t number(const char *variable, std::uint64_t otherwise);

}  // namespace attile::test
