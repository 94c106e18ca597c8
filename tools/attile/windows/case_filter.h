// SPDX-License-Identifier: Apache-2.0
// Cases by a regular expression of their ids. Windows' C library has none: the C++ library's, in the same grammar.
#pragma once

#include <regex>
#include <string>

#include "cli.h"

namespace attile::cli {

class CaseFilter {
  public:
    // The POSIX extended regular expression of --filter, searched for anywhere in an id; empty: every id matches.
    explicit CaseFilter(const std::string &expression) {
        try {
            if (!expression.empty()) compiled_.assign(expression, std::regex::extended | std::regex::nosubs);
            matches_all_ = expression.empty();
        } catch (const std::regex_error &) {
            throw Failure("--filter '" + expression + "' is not a regular expression");
        }
    }
    bool matches(const std::string &id) const { return matches_all_ || std::regex_search(id, compiled_); }

  private:
    std::regex compiled_;
    bool matches_all_ = false;
};

}  // namespace attile::cli
