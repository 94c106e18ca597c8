// SPDX-License-Identifier: Apache-2.0
// Which cases are verified, and what is said of them.
#pragma once

#include <string>
#include <vector>

#include "cases.h"
#include "commands.h"
#include "runner.h"

namespace attile::cli {

// Those that the options name; throws Failure if there is none.
std::vector<test::Case> choose_cases(const VerifyOptions &options);

// All there is to say about a case.
std::string verify_facts(const test::Report &report);

// A row for each feature of each operation, and a last one for all. Of the cases that ran, which are the first ones.
std::string verify_table(const std::vector<test::Case> &cases, const std::vector<test::Report> &reports);

}  // namespace attile::cli
