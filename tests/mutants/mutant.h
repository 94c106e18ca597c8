// SPDX-License-Identifier: Apache-2.0
// A fault that is there to be found: ATTILE_MUTANT("name") is true in a process whose environment names it. Only in the copy of the sources
// that run_mutants.py makes; the library's own hold none of it.
#pragma once

#include <cstdlib>
#include <cstring>

namespace attile_mutants {

inline bool is_chosen(const char *name) {
    const char *chosen = std::getenv("ATTILE_MUTANT");
    return chosen != nullptr && std::strcmp(chosen, name) == 0;
}

}  // namespace attile_mutants

// Asked once for each place.
#define ATTILE_MUTANT(name)                                               \
    ([] {                                                                 \
        static const bool chosen = ::attile_mutants::is_chosen(name);     \
        return chosen;                                                    \
    }())
