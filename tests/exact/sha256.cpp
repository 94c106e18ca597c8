// SPDX-License-Identifier: Apache-2.0
#include "sha256.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>

namespace attile::test {
namespace {

// The first 32 bits behind the point of roots of the first primes; double has some more bits than these need.
uint32_t fraction_of_root(int prime, bool cube) {
    const double root = cube ? std::cbrt(prime) : std::sqrt(prime);
    return static_cast<uint32_t>(static_cast<uint64_t>(std::floor((root - std::floor(root)) * 0x1p32)));
}
int next_prime(int after) {
    for (int candidate = after + 1;; ++candidate) {
        bool is_prime = candidate > 1;
        for (int divisor = 2; divisor * divisor <= candidate; ++divisor) is_prime = is_prime && candidate % divisor != 0;
        if (is_prime) return candidate;
    }
}

}  // namespace

std::string sha256(const std::vector<unsigned char> &bytes) {
    uint32_t factor[64], hash[8];
    for (int i = 0, prime = 1; i < 64; ++i) {
        prime = next_prime(prime);
        factor[i] = fraction_of_root(prime, true);
        if (i < 8) hash[i] = fraction_of_root(prime, false);
    }
    std::vector<unsigned char> text = bytes;
    text.push_back(0x80);
    while (text.size() % 64 != 56) text.push_back(0);
    for (int shift = 56; shift >= 0; shift -= 8)
        text.push_back(static_cast<unsigned char>(static_cast<uint64_t>(bytes.size()) * 8 >> shift));
    for (size_t at = 0; at < text.size(); at += 64) {
        uint32_t word[64], v[8];
        for (size_t i = 0; i < 16; ++i) {
            word[i] = 0;
            for (size_t byte = 0; byte < 4; ++byte) word[i] = word[i] << 8 | text[at + 4 * i + byte];
        }
        for (int i = 16; i < 64; ++i) {
            const uint32_t x = word[i - 15], y = word[i - 2];
            word[i] = word[i - 16] + (std::rotr(x, 7) ^ std::rotr(x, 18) ^ x >> 3) + word[i - 7] +
                      (std::rotr(y, 17) ^ std::rotr(y, 19) ^ y >> 10);
        }
        for (int i = 0; i < 8; ++i) v[i] = hash[i];
        for (int i = 0; i < 64; ++i) {
            const uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]), majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
            const uint32_t first = v[7] + (std::rotr(v[4], 6) ^ std::rotr(v[4], 11) ^ std::rotr(v[4], 25)) + choice + factor[i] + word[i];
            const uint32_t second = (std::rotr(v[0], 2) ^ std::rotr(v[0], 13) ^ std::rotr(v[0], 22)) + majority;
            for (int j = 7; j > 0; --j) v[j] = v[j - 1];
            v[4] += first;
            v[0] = first + second;
        }
        for (int i = 0; i < 8; ++i) hash[i] += v[i];
    }
    std::string result;
    for (const uint32_t part : hash) {
        char digits[9];
        std::snprintf(digits, sizeof digits, "%08x", part);
        result += digits;
    }
    return result;
}

}  // namespace attile::test
