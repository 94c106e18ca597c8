// SPDX-License-Identifier: Apache-2.0
// Products of int8 whose exact sums are wanted modulo one number of 8 bits each: what exact products are made of.
#pragma once

#include <attile/attile_backend.h>

#include <cstdint>

namespace attile::gpu {

inline constexpr int kMostModuli = 24;

// `sums` is a batch of products of int8, its outer axis the moduli. To plans D is of int32; what is stored are bytes in its place, at the
// same strides, which but for the last axis are multiples of kResidueRow: (sum + 2^31) modulo the modulus. Rows go on to the next
// multiple, so that whole pieces can be stored.
struct ResidueSums {
    attile_gemm_problem sums;
    uint8_t largest[kMostModuli];  // Residues: a modulus less one.
};
inline constexpr int kResidueRow = 16;

}  // namespace attile::gpu
