// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace attile::gpu {

// Division by a number known before the launch, as a multiplication: in the inner loops a division would cost registers for reciprocals.
// Exact for dividends below 2^31.
struct Divider {
    uint32_t divisor = 1, multiplier = 0, shift = 0;

    Divider() = default;
    explicit Divider(int64_t by) : divisor(static_cast<uint32_t>(by)) {
        while (shift < 31 && (uint32_t{1} << shift) < divisor) ++shift;
        multiplier = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - divisor)) / divisor + 1);
    }
};

}  // namespace attile::gpu
