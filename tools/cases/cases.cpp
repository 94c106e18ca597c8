// SPDX-License-Identifier: Apache-2.0
// The whole list, and the way from an id back to its case.
#include "cases.h"

#include <charconv>

#include "cases_exact.h"

namespace attile::test {

std::vector<Case> list_cases(Tier tier) {
    std::vector<Case> list;
    append_gemm_cases(list, tier);
    append_grouped_cases(list, tier);
    const auto with_exact = [&](auto append) {
        const std::size_t first = list.size();
        append(list, tier);
        append_exact_rows(list, first);
    };
    with_exact(append_attention_cases);
    append_backward_cases(list, tier);
    with_exact(append_merge_cases);
    append_merge_backward_cases(list, tier);
    with_exact(append_reduce_cases);
    with_exact(append_softmax_cases);
    return list;
}

std::string operation_of(std::string_view id) { return std::string(id.substr(0, id.find('.'))); }

std::optional<Case> find_case(std::string_view id) {
    const std::string operation = operation_of(id);
    const std::string_view rest = id.substr(std::min(id.size(), operation.size() + 1));
    constexpr std::string_view kRandom = "random.";
    if (rest.substr(0, kRandom.size()) == kRandom) {
        const std::string_view digits = rest.substr(kRandom.size());
        std::uint64_t seed = 0;
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), seed);
        if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
        if (operation == "gemm") return Case{std::string(id), random_gemm(seed)};
        if (operation == "gemm_grouped") return Case{std::string(id), random_grouped(seed)};
        if (operation == "attention") return Case{std::string(id), random_attention(seed)};
        if (operation == "attention_backward") return Case{std::string(id), random_backward(seed)};
        if (operation == "attention_merge") return Case{std::string(id), random_merge(seed)};
        if (operation == "attention_merge_backward") return Case{std::string(id), random_merge_backward(seed)};
        if (operation == "reduce") return Case{std::string(id), random_reduce(seed)};
        if (operation == "softmax") return Case{std::string(id), random_softmax(seed)};
        return std::nullopt;
    }
    for (Case &candidate : list_cases(Tier::kFull))
        if (candidate.id == id) return std::move(candidate);
    return std::nullopt;
}

namespace {

double multiply_adds(const GemmCase &c) {
    double count = static_cast<double>(c.m) * static_cast<double>(c.n) * static_cast<double>(c.k);
    for (const std::int64_t extent : c.batch) count *= static_cast<double>(extent);
    return count;
}
double multiply_adds(const GroupedCase &c) {
    return static_cast<double>(c.total_rows()) * static_cast<double>(c.n) * static_cast<double>(c.k);
}
double multiply_adds(const AttentionCase &c) {
    return static_cast<double>(c.batch * c.heads_q) * static_cast<double>(c.len_q * c.len_k) *
           static_cast<double>(c.head_dim + c.head_dim_v);
}
double multiply_adds(const BackwardCase &c) { return multiply_adds(c.forward); }
double multiply_adds(const MergeCase &) { return 0; }
double multiply_adds(const MergeBackwardCase &) { return 0; }
double multiply_adds(const ReduceCase &) { return 0; }
double multiply_adds(const SoftmaxCase &) { return 0; }

}  // namespace

double multiply_adds(const Case &test_case) {
    return std::visit([](const auto &problem) { return multiply_adds(problem); }, test_case.problem);
}

std::string describe(const Case &test_case) {
    return std::visit([](const auto &problem) { return describe(problem); }, test_case.problem);
}

}  // namespace attile::test
