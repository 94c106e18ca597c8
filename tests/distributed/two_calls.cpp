// SPDX-License-Identifier: Apache-2.0
#include "two_calls.h"

namespace attile::test {

std::string name_of(const testing::TestParamInfo<Kind> &given) {
    constexpr const char *kNames[] = {"threads", "callbacks", "bare_callbacks"};
    return kNames[static_cast<int>(given.param)];
}

}  // namespace attile::test
