// SPDX-License-Identifier: Apache-2.0
// Cases made of a listed one and options, by the names of both.
#include <algorithm>

#include "case_options.h"

namespace attile::test {

std::optional<Case> with_options(const Case &base, std::string_view options) {
    Case made = base;
    while (!options.empty()) {
        const std::string_view name = options.substr(0, options.find('+'));
        options.remove_prefix(std::min(options.size(), name.size() + 1));
        const std::vector<CaseOption> &all = options_of(operation_of(base.id));
        const auto option = std::find_if(all.begin(), all.end(), [&](const CaseOption &each) { return each.name == name; });
        if (option == all.end() || !option->give(made)) return std::nullopt;
        made.id += "+" + std::string(name);
    }
    return made;
}

std::optional<Case> find_with_options(std::string_view id) {
    const std::size_t plus = std::min(id.find('+'), id.size());
    const std::optional<Case> base = find_case(id.substr(0, plus));
    return base && plus < id.size() ? with_options(*base, id.substr(plus + 1)) : base;
}

}  // namespace attile::test
