// SPDX-License-Identifier: Apache-2.0
// Cases by a regular expression of their ids.
#pragma once

#include <regex.h>

#include <string>

#include "cli.h"

namespace attile::cli {

class CaseFilter {
  public:
    // The POSIX extended regular expression of --filter, searched for anywhere in an id; empty: every id matches.
    explicit CaseFilter(const std::string &expression) {
        if (regcomp(&compiled_, expression.c_str(), REG_EXTENDED | REG_NOSUB) != 0)
            throw Failure("--filter '" + expression + "' is not a regular expression");
    }
    ~CaseFilter() { regfree(&compiled_); }
    CaseFilter(const CaseFilter &) = delete;
    CaseFilter &operator=(const CaseFilter &) = delete;
    bool matches(const std::string &id) const { return regexec(&compiled_, id.c_str(), 0, nullptr, 0) == 0; }

  private:
    regex_t compiled_ = {};
};

}  // namespace attile::cli
