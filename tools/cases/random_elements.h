// SPDX-License-Identifier: Apache-2.0
// Random values of magnitude 1/8 to 2 and either sign, made as bit patterns: no conversion between types is needed.
#pragma once

#include <attile/attile.h>

#include <cstdint>
#include <cstring>

namespace attile::bench {

class RandomElements {
  public:
    explicit RandomElements(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}

    void fill(int32_t dtype, int64_t count, unsigned char *to) {
        for (int64_t i = 0; i < count; ++i, to += (dtype & 0xff) / 8) {
            const uint64_t bits = next();
            const uint64_t octave = bits >> 8 & 3;  // Exponents -3 to 0.
            switch (dtype) {
                case ATTILE_F64:
                    put(to, (bits & 1) << 63 | (1020 + octave) << 52 | bits >> 12);
                    break;
                case ATTILE_F32:
                    put(to, static_cast<uint32_t>((bits & 1) << 31 | (124 + octave) << 23 | bits >> 41));
                    break;
                case ATTILE_F16:
                    put(to, static_cast<uint16_t>((bits & 1) << 15 | (12 + octave) << 10 | bits >> 54));
                    break;
                case ATTILE_BF16:
                    put(to, static_cast<uint16_t>((bits & 1) << 15 | (124 + octave) << 7 | bits >> 57));
                    break;
                case ATTILE_F8_E4M3:
                    put(to, static_cast<uint8_t>((bits & 1) << 7 | (4 + octave) << 3 | bits >> 61));
                    break;
                case ATTILE_F8_E5M2:
                    put(to, static_cast<uint8_t>((bits & 1) << 7 | (12 + octave) << 2 | bits >> 62));
                    break;
                case ATTILE_I8:  // Any.
                    put(to, static_cast<uint8_t>(bits >> 56));
                    break;
                case ATTILE_BOOL:  // One of ten is 0.
                    put(to, static_cast<uint8_t>((bits >> 32) % 10 != 0));
                    break;
                default:
                    std::memset(to, 0, static_cast<size_t>((dtype & 0xff) / 8));
            }
        }
    }

  private:
    template <typename T>
    static void put(unsigned char *to, T value) {
        std::memcpy(to, &value, sizeof value);
    }

    uint64_t next() {  // xorshift64*
        state_ ^= state_ >> 12;
        state_ ^= state_ << 25;
        state_ ^= state_ >> 27;
        return state_ * 0x2545F4914F6CDD1Du;
    }

    uint64_t state_;
};

}  // namespace attile::bench
