// SPDX-License-Identifier: Apache-2.0
// The list of cases that conformance, `attile verify` and benches share. Every case has an id that finds it again.
//
// Ids: "<operation>.<name>.<types>" for a case made by hand for one feature, "<operation>.random.<seed>" for one drawn by the generator,
// which finds any seed, listed or not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cases_attention.h"
#include "cases_gemm.h"
#include "cases_grouped.h"
#include "cases_merge.h"
#include "cases_reduce.h"

namespace attile::test {

struct Case {
    std::string id;
    std::variant<GemmCase, AttentionCase, BackwardCase, MergeCase, MergeBackwardCase, ReduceCase, SoftmaxCase, GroupedCase> problem;
};

enum class Tier { kQuick, kFull };  // seconds, and about a minute, on the reference backend

/// The list, in a fixed order, operations one after the other.
std::vector<Case> list_cases(Tier tier);

/// A case by its id.
std::optional<Case> find_case(std::string_view id);

/// Everything about a case in one line, for a person.
std::string describe(const Case &test_case);

/// Of the products of a case: what its plain loops take their time for. 0 of operations that have none.
double multiply_adds(const Case &test_case);

/// "gemm" of "gemm.bias.f32".
std::string operation_of(std::string_view id);

}  // namespace attile::test
