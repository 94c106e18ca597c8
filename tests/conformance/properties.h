// SPDX-License-Identifier: Apache-2.0
// What the property tests share.
#pragma once

#include <attile/attile.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "conformance_backends.h"

namespace attile::test {

/// Opened by main, closed when it ends.
const std::vector<Backend> &tested_backends();

using PropertyTest = testing::Test;

/// A status, and the library's sentence if it is not success.
inline testing::AssertionResult succeeded(std::int32_t status) {
    if (status == ATTILE_OK) return testing::AssertionSuccess();
    char text[512];
    attile_last_error(text, sizeof text);
    return testing::AssertionFailure() << attile_status_name(status) << ": " << text;
}

/// Calls `body(context)` for every backend, with the backend's name in any failure.
template <class F>
void on_every_backend(F body) {
    for (const Backend &backend : tested_backends()) {
        SCOPED_TRACE("backend " + backend.name);
        body(backend.context.get());
    }
}

}  // namespace attile::test
