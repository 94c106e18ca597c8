// SPDX-License-Identifier: Apache-2.0
// Numbers of a tensor one by one, where an operator changes them before Attile sees them.
#ifndef ATTILE_ONNXRUNTIME_NUMBERS_H
#define ATTILE_ONNXRUNTIME_NUMBERS_H

#include <attile/attile.h>

#include <bit>
#include <cstdint>

namespace attile::onnxruntime {

// How a type lies in memory, and what is computed with: float32, or float64 of float64. Stores round to nearest even.
struct Single {
    using Stored = float;
    using Computed = float;
    static float load(float x) { return x; }
    static float store(float x) { return x; }
};

struct Double {
    using Stored = double;
    using Computed = double;
    static double load(double x) { return x; }
    static double store(double x) { return x; }
};

struct Brain {
    using Stored = uint16_t;
    using Computed = float;
    static float load(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
    static uint16_t store(float x) {
        const uint32_t bits = std::bit_cast<uint32_t>(x);
        if (x != x) return static_cast<uint16_t>(bits >> 16 | 0x40u);  // A NaN whose upper bits are 0 must not become an infinity.
        return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
    }
};

struct Half {
    using Stored = uint16_t;
    using Computed = float;
    // A float with these bits, moved to its fields, is too small by 2^112. Subnormal numbers count 2^-24, so that no float on the way is
    // subnormal, which a session may have set to be taken for 0.
    static float load(uint16_t bits) {
        const uint32_t magnitude = bits & 0x7fffu, special = magnitude >= 0x7c00u ? 0x7f800000u : 0u;
        const float moved =
            magnitude < 0x400u ? static_cast<float>(magnitude) * 0x1p-24f : std::bit_cast<float>(magnitude << 13) * 0x1p112f;
        const auto value = std::bit_cast<uint32_t>(moved);
        return std::bit_cast<float>(value | special | (bits & 0x8000u) << 16);
    }
    static uint16_t store(float x) {
        const uint32_t bits = std::bit_cast<uint32_t>(x), magnitude = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000u;
        if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
        if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);
        // Subnormal ones: 0.5 has the last place that they have.
        if (magnitude < 0x38800000u) {
            const float moved = std::bit_cast<float>(magnitude) + 0.5f;
            return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(moved) - 0x3f000000u));
        }
        return static_cast<uint16_t>(sign | (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13);
    }
};

// Calls fn(Type{}) for one of the four types that the operators compute with.
template <typename Fn>
auto with_type(int32_t dtype, Fn &&fn) {
    switch (dtype) {
        case ATTILE_F64:
            return fn(Double{});
        case ATTILE_F16:
            return fn(Half{});
        case ATTILE_BF16:
            return fn(Brain{});
        default:
            return fn(Single{});
    }
}

}  // namespace attile::onnxruntime

#endif
