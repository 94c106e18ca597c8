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

// Of these each that the context serves with EXACT_PRODUCTS, and behind it the same with the flag; throws Failure if there is none.
std::vector<bench::BenchCase> exact_pairs(attile_context *context, const std::vector<bench::BenchCase> &cases);

}  // namespace attile::cli
