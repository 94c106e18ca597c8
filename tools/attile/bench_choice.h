// SPDX-License-Identifier: Apache-2.0
// Which of the bench cases are run.
#pragma once

#include <attile/attile.h>

#include <vector>

#include "bench_cases.h"
#include "commands.h"

namespace attile::cli {

// Those that the options name, or that suit the device; throws Failure if there is none.
std::vector<bench::BenchCase> choose_bench_cases(const BenchOptions &options, const attile_context_info &info);

}  // namespace attile::cli
