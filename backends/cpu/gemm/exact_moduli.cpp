// SPDX-License-Identifier: Apache-2.0
// Numbers of the Chinese remainder theorem for exact products.
#include <cmath>

#include "gemm/exact.h"

namespace attile::cpu {
namespace {

constexpr int32_t kModuli[kMostModuli] = {256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193,
                                          191, 181, 179, 173, 167, 163, 157, 151, 149, 139, 137, 131, 127, 113, 109};

// A number of up to kMostLimbs * kLimbBits bits.
class Natural {
  public:
    explicit Natural(uint64_t value) { limbs_[0] = value; }
    void times(uint64_t factor) {
        uint64_t carry = 0;
        for (uint64_t &limb : limbs_) {
            const uint64_t product = limb * factor + carry;
            limb = product & kMask;
            carry = product >> kLimbBits;
        }
    }
    uint64_t modulo(uint64_t p) const {
        uint64_t rest = 0;
        for (int l = kMostLimbs - 1; l >= 0; --l) rest = (rest << kLimbBits | limbs_[l]) % p;
        return rest;
    }
    double limb(int l) const { return static_cast<double>(limbs_[l]); }

  private:
    static constexpr uint64_t kMask = (uint64_t{1} << kLimbBits) - 1;
    uint64_t limbs_[kMostLimbs] = {};
};

}  // namespace

ExactModulus exact_modulus(int index) { return {kModuli[index], 1.0f / static_cast<float>(kModuli[index])}; }

double exact_bits(int moduli) {
    double bits = 0;
    for (int i = 0; i < moduli; ++i) bits += std::log2(kModuli[i]);
    return bits;
}

ExactWeights exact_weights(int moduli) {
    ExactWeights weights;
    weights.moduli = moduli;
    weights.limbs = static_cast<int>(exact_bits(moduli)) / kLimbBits + 1;
    Natural all(1);
    for (int i = 0; i < moduli; ++i) all.times(static_cast<uint64_t>(kModuli[i]));
    double top = 0;
    for (int l = 0; l < kMostLimbs; ++l) {
        weights.modulus[l] = all.limb(l);
        if (l < weights.limbs) top = top * std::ldexp(1.0, -kLimbBits) + weights.modulus[l];
    }
    weights.inverse = 1 / top;
    for (int i = 0; i < moduli; ++i) {
        const uint64_t p = static_cast<uint64_t>(kModuli[i]);
        Natural others(1);
        for (int j = 0; j < moduli; ++j) {
            if (j != i) others.times(static_cast<uint64_t>(kModuli[j]));
        }
        const uint64_t rest = others.modulo(p);
        uint64_t reciprocal = 1;
        while (rest * reciprocal % p != 1 % p) ++reciprocal;
        others.times(reciprocal);
        for (int l = 0; l < kMostLimbs; ++l) weights.weight[i][l] = others.limb(l);
    }
    return weights;
}

void exact_digit_weights(const ExactModulus &modulus, int words, int32_t (&weights)[kMostPairs]) {
    const auto power = [&](int digit) {
        int32_t x = 1;
        for (int i = 0; i < 15 * digit; ++i) x = 2 * x % modulus.p;
        return x > modulus.p / 2 ? x - modulus.p : x;
    };
    const auto pair = [&](int32_t low, int32_t high) {
        return static_cast<int32_t>((static_cast<uint32_t>(low) & 0xffffu) | static_cast<uint32_t>(high) << 16);
    };
    for (int w = 0; w < words; ++w) weights[w] = pair(power(3 * w), power(3 * w + 1));
    weights[words] = pair(power(2), words > 1 ? power(5) : 0);
    if (words == 3) weights[4] = pair(power(8), 0);
}

}  // namespace attile::cpu
