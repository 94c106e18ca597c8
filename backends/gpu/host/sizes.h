// SPDX-License-Identifier: Apache-2.0
// What every plan asks of sizes and operands.
#pragma once

#include <cstdint>

#include <attile/attile_backend.h>

namespace attile::gpu {

// The least number of pieces of b that hold a; both positive, a up to 2^63 - b.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// What a number takes in memory: 4 bits for the types of which two share a byte.
constexpr int64_t dtype_bits(int32_t dtype) { return dtype & 0xff; }

// An address of whole elements where no vector begins, for an operand whose own is not known yet.
inline void *odd_address(int32_t dtype) { return reinterpret_cast<void *>(dtype_bits(dtype) < 8 ? 1 : dtype_bits(dtype) / 8); }

// Was the operand given? One that was left out has no type.
inline bool is_present(const attile_operand &operand) { return operand.dtype != 0; }

}  // namespace attile::gpu
