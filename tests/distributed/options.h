// SPDX-License-Identifier: Apache-2.0
// What a call of attention may ask for, one after the other, on a small problem.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cases_attention.h"

namespace attile::test {

struct Option {
    const char *name;
    std::function<void(AttentionCase &)> set;
};

const std::vector<Option> &options();
AttentionCase case_of(const Option &option, std::int32_t dtype);

/// Its gradients; every other variant has them in float32, where its type allows that.
BackwardCase gradients_of(AttentionCase forward, std::size_t variant = 0);

inline constexpr std::int32_t kTypes[] = {ATTILE_F32, ATTILE_F64, ATTILE_F16, ATTILE_BF16};

}  // namespace attile::test
