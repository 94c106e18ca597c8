// SPDX-License-Identifier: Apache-2.0
// Activations of products, as attile.h defines them.
#pragma once

#include <attile/attile.h>

#include <cmath>
#include <cstdint>

namespace attile::test {

template <class T>
T activate(std::int32_t activation, T x) {
    switch (activation) {
        case ATTILE_ACTIVATION_RELU:
            return x < 0 ? 0 : x;
        case ATTILE_ACTIVATION_GELU:
            return x / 2 * (1 + std::erf(x / static_cast<T>(1.4142135623730951)));
        case ATTILE_ACTIVATION_GELU_TANH:
            return x / 2 * (1 + std::tanh(static_cast<T>(0.7978845608028654) * (x + static_cast<T>(0.044715) * x * x * x)));
        case ATTILE_ACTIVATION_SILU:
            return x / (1 + std::exp(-x));
        default:
            return x;
    }
}

}  // namespace attile::test
