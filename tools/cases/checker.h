// SPDX-License-Identifier: Apache-2.0
// The rule by which a result is right.
//
// Per row (the last axis), an element's error against double precision may be at most
//     2 x (largest error of an honest computation in that row, or its typical error where the row had luck)
//       + one rounding of the sum of the absolute values that make the element (two in float64, where the expected value has its own)
//       + the rounding of the result to its storage type.
// NaN and infinities must be exactly where they are expected; NaN never passes a comparison.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "honest.h"
#include "test_tensor.h"

namespace attile::test {

struct Verdict {
    bool passed = true;
    double worst = 0;     ///< Largest error as a share of what is allowed.
    std::string message;  ///< Empty, or the first element that is wrong and why.
};

/// Judges `got`, stored as `stored_dtype` and computed in `compute_dtype`, against `expected`, which is in double.
Verdict check_values(const Values &got, const Values &expected, const Honest &honest, std::int32_t stored_dtype,
                     std::int32_t compute_dtype);

}  // namespace attile::test
