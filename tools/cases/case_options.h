// SPDX-License-Identifier: Apache-2.0
// The options of every operation, each by its name: whether a case has it, and how a case gets it.
//
// A plan that a backend can choose times an option is a cell. tests/coverage finds out which cells exist and which of them the list of
// cases reaches; cases_cells.cpp makes cases of what was missing, "gemm.batch.f32+relu" being gemm.batch.f32 with a relu.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cases.h"

namespace attile::test {

struct CaseOption {
    const char *name;
    bool (*has)(const Case &);
    bool (*give)(Case &);  ///< False: the case cannot have it.
};

/// The options of an operation, "gemm".
const std::vector<CaseOption> &options_of(std::string_view operation);

/// The case with options by name after its id, each after a '+'. Nothing if there is no such option, or the case cannot have it.
std::optional<Case> with_options(const Case &base, std::string_view options);

/// The case of an id that may end with options, "gemm.random.7+relu".
std::optional<Case> find_with_options(std::string_view id);

}  // namespace attile::test
