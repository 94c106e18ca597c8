// SPDX-License-Identifier: Apache-2.0
// The moduli of exact products: pairwise coprime numbers of 8 bits, largest first, and the numbers of the Chinese remainder theorem.
#pragma once

#include <cstdint>

#include "gemm/residue_sums.h"

namespace attile::gpu::exact {

inline constexpr int kFewestLimbs = 3, kMostLimbs = 6;  // Limbs of 32 bits.
// Integers of lines have up to 2^kMostBits in magnitude, in 12 digits from -128 to 127; up to 2^kNarrowBits in eight.
inline constexpr int kDigitWords = 3, kMostBits = 93, kNarrowBits = 61;

// How digits are made residues: start + the sum of digits times weights is positive, and what is left of it modulo p, less p / 2, is
// the residue of int8.
struct ResidueModulus {
    uint32_t p, inverse;            // 2^32 / p, rounded up; of 256, too, exact.
    uint32_t weights[kDigitWords];  // 256^i modulo p, each an int8.
    uint32_t start;
};

// A sum is that of residues times weights, less a multiple of the product of the moduli.
struct JoinNumbers {
    int32_t moduli, reserved;
    float inverse;                                    // 2^(32 (limbs - 1)) over the product.
    uint32_t p[kMostModuli], inverse_p[kMostModuli];  // 2^32 / p, rounded down.
    uint32_t weight[kMostModuli][kMostLimbs];
    uint32_t product[kMostLimbs];
};

double bits_of_product(int moduli);  // log2
int limbs_for(int moduli);
ResidueModulus residue_modulus(int index);
// The same for all calls: made once for each number of moduli.
const JoinNumbers &join_numbers(int moduli);

}  // namespace attile::gpu::exact
