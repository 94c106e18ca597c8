// SPDX-License-Identifier: Apache-2.0
// Runs the property tests on every backend under test; see conformance_backends.h for how to choose.
#include <gtest/gtest.h>

#include <cstdio>
#include <exception>

#include "properties.h"

namespace attile::test {

static std::vector<Backend> *backends_of_session = nullptr;

const std::vector<Backend> &tested_backends() { return *backends_of_session; }

}  // namespace attile::test

int main(int argc, char **argv) {
    try {
        std::vector<attile::test::Backend> backends = attile::test::backends_under_test();
        attile::test::backends_of_session = &backends;
        testing::InitGoogleTest(&argc, argv);
        return RUN_ALL_TESTS();
    } catch (const std::exception &error) {
        std::fprintf(stderr, "conformance properties: %s\n", error.what());
        return 1;
    }
}
