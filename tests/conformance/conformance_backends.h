// SPDX-License-Identifier: Apache-2.0
// The backends that conformance tests, opened once for the whole program.
#pragma once

#include <attile/attile.h>

#include <memory>
#include <string>
#include <vector>

namespace attile::test {

struct ContextCloser {
    void operator()(attile_context *context) const { attile_context_destroy(context); }
};
using ContextHandle = std::unique_ptr<attile_context, ContextCloser>;

struct Backend {
    std::string name;  ///< fit for a test's name
    ContextHandle context;
};

/// A context, or nullptr and the library's sentence in `why`.
ContextHandle open_backend(const std::string &selection, std::string *why = nullptr);

/// What ATTILE_TEST_BACKEND names, comma-separated; by default the reference and every other backend that opens. Throws std::runtime_error
/// if one that is named, there or in ATTILE_TEST_REQUIRED, does not open.
std::vector<Backend> backends_under_test();

/// One case in so many is run again, in a caller's workspace and prepared: ATTILE_TEST_RERUNS, for backends that take long; by default 1.
/// A prime above the number of types: cases of one feature follow each other by type.
int rerun_each();

}  // namespace attile::test
