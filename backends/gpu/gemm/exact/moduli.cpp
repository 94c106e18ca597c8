// SPDX-License-Identifier: Apache-2.0
#include "gemm/exact/moduli.h"

#include <algorithm>
#include <cmath>

namespace attile::gpu::exact {
namespace {

constexpr uint32_t kModuli[kMostModuli] = {256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217,
                                           211, 199, 197, 193, 191, 181, 179, 173, 167, 163, 157, 151};

// A natural number of kMostLimbs limbs.
struct Natural {
    uint32_t limb[kMostLimbs] = {};

    explicit Natural(uint32_t value) { limb[0] = value; }
    void times(uint32_t factor) {
        uint64_t carry = 0;
        for (uint32_t &of : limb) {
            carry += static_cast<uint64_t>(of) * factor;
            of = static_cast<uint32_t>(carry);
            carry >>= 32;
        }
    }
    uint32_t modulo(uint32_t p) const {
        uint64_t rest = 0;
        for (int l = kMostLimbs - 1; l >= 0; --l) rest = (rest << 32 | limb[l]) % p;
        return static_cast<uint32_t>(rest);
    }
};

JoinNumbers make_join_numbers(int moduli) {
    JoinNumbers numbers = {};
    numbers.moduli = moduli;
    Natural product(1);
    for (int i = 0; i < moduli; ++i) product.times(kModuli[i]);
    std::copy(product.limb, product.limb + kMostLimbs, numbers.product);
    double top = 0;
    for (int l = 0; l < limbs_for(moduli); ++l) top = top * 0x1p-32 + product.limb[l];
    numbers.inverse = static_cast<float>(1 / top);
    for (int i = 0; i < moduli; ++i) {
        const uint32_t p = kModuli[i];
        numbers.p[i] = p;
        numbers.inverse_p[i] = static_cast<uint32_t>((uint64_t{1} << 32) / p);
        Natural others(1);
        for (int j = 0; j < moduli; ++j)
            if (j != i) others.times(kModuli[j]);
        const uint32_t rest = others.modulo(p);
        uint32_t reciprocal = 1;
        while (rest * reciprocal % p != 1 % p) ++reciprocal;
        others.times(reciprocal);
        std::copy(others.limb, others.limb + kMostLimbs, numbers.weight[i]);
    }
    return numbers;
}

struct AllJoinNumbers {
    JoinNumbers of[kMostModuli + 1];
    AllJoinNumbers() {
        for (int moduli = 0; moduli <= kMostModuli; ++moduli) of[moduli] = make_join_numbers(moduli);
    }
};

}  // namespace

double bits_of_product(int moduli) {
    double bits = 0;
    for (int i = 0; i < moduli; ++i) bits += std::log2(kModuli[i]);
    return bits;
}

// The sum's sign and the bounds of its interval take two bits more than half of the product.
int limbs_for(int moduli) { return std::max(kFewestLimbs, static_cast<int>(bits_of_product(moduli) + 1) / 32 + 1); }

ResidueModulus residue_modulus(int index) {
    constexpr uint32_t kMostSum = 1 << 18;  // Above 12 products of 128 by 128.
    ResidueModulus modulus = {};
    const uint32_t p = kModuli[index], half = p / 2;
    modulus.p = p;
    modulus.inverse = static_cast<uint32_t>(((uint64_t{1} << 32) + p - 1) / p);
    uint32_t power = 1;
    for (int i = 0; i < 4 * kDigitWords; ++i, power = power * 256 % p) {
        const uint32_t centred = power >= p - half ? power - p : power;
        modulus.weights[i / 4] |= (centred & 0xffu) << i % 4 * 8;
    }
    modulus.start = (kMostSum / p + 1) * p + half;
    return modulus;
}

const JoinNumbers &join_numbers(int moduli) {
    static const AllJoinNumbers all;
    return all.of[moduli];
}

}  // namespace attile::gpu::exact
