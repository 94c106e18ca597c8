// SPDX-License-Identifier: Apache-2.0
// A line of problems.txt as a query.
#pragma once

#include <attile/attile.h>

#include <string>

namespace attile::test {

// Asks how a call of that line would run; throws std::invalid_argument if the line is none.
int32_t query_problem(attile_context *context, const std::string &line, attile_support *support);

}  // namespace attile::test
