// SPDX-License-Identifier: Apache-2.0
// Elements of every storage type as double, and back with one rounding to nearest even.
//
// The conversions are integer arithmetic, so they are exact whatever rounding or flush-to-zero mode the host program runs in.
#pragma once

#include <attile/attile_backend.h>

#include <bit>
#include <cstdint>

namespace attile::reference {

inline double decode_f16(std::uint16_t bits) {
    const std::uint64_t sign = static_cast<std::uint64_t>(bits & 0x8000u) << 48;
    const std::uint64_t exponent = (bits >> 10) & 0x1fu;
    const std::uint64_t mantissa = bits & 0x3ffu;
    if (exponent == 0) {  // zero and subnormals count in units of 2^-24
        const double magnitude = static_cast<double>(mantissa) * 0x1p-24;
        return sign != 0 ? -magnitude : magnitude;
    }
    const std::uint64_t wide = exponent == 0x1f ? 0x7ffu : exponent - 15 + 1023;
    return std::bit_cast<double>(sign | wide << 52 | mantissa << 42);
}

inline double decode_f32(float x) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
    if ((bits & 0x7f800000u) != 0) return static_cast<double>(x);
    const double magnitude = static_cast<double>(static_cast<std::int32_t>(bits & 0x7fffffu)) * 0x1p-149;
    return bits >> 31 != 0 ? -magnitude : magnitude;
}

inline double decode_bf16(std::uint16_t bits) { return decode_f32(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16)); }

/// No infinities: what IEEE would have there are numbers, and all ones NaN.
inline double decode_e4m3(std::uint8_t bits) {
    const std::uint32_t magnitude = bits & 0x7fu;
    if (magnitude == 0x7f) return std::bit_cast<double>(0x7ff8000000000000ull);
    const std::uint64_t sign = static_cast<std::uint64_t>(bits & 0x80u) << 56;
    const std::uint64_t exponent = magnitude >> 3, mantissa = magnitude & 7u;
    if (exponent == 0) {  // zero and subnormals count in units of 2^-9
        const double value = static_cast<double>(mantissa) * 0x1p-9;
        return sign != 0 ? -value : value;
    }
    return std::bit_cast<double>(sign | (exponent - 7 + 1023) << 52 | mantissa << 49);
}

/// The upper half of an IEEE float16.
inline double decode_e5m2(std::uint8_t bits) { return decode_f16(static_cast<std::uint16_t>(bits << 8)); }

// The magnitude of a finite number, rounded to kMantissa stored bits and kExponentBits of exponent, however large that has to be. Going
// through float would round twice and be wrong next to ties.
template <int kMantissa, int kExponentBits>
std::uint64_t encode_magnitude(double value) {
    constexpr int kMinExponent = 2 - (1 << (kExponentBits - 1));  // of the smallest normal number
    const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
    const int field = static_cast<int>((bits >> 52) & 0x7ff);
    if (field == 0) return 0;  // far below half of the smallest subnormal

    const int exponent = field - 1023;
    const std::uint64_t significand = (bits & 0xfffffffffffffull) | 1ull << 52;
    const int shift = 52 - kMantissa + (exponent < kMinExponent ? kMinExponent - exponent : 0);
    if (shift > 54) return 0;
    std::uint64_t rounded = significand >> shift;
    const std::uint64_t rest = significand & ((1ull << shift) - 1);
    const std::uint64_t half = 1ull << (shift - 1);
    if (rest > half || (rest == half && (rounded & 1) != 0)) ++rounded;

    // A carry out of the mantissa moves into the exponent by itself, also from subnormal to normal and from normal to infinity.
    return rounded + (exponent >= kMinExponent ? static_cast<std::uint64_t>(exponent - kMinExponent) << kMantissa : 0);
}

// Rounds to a 16-bit format with kMantissa stored bits.
template <int kMantissa>
std::uint16_t encode_16(double value) {
    constexpr std::uint32_t kInfinity = ((1u << (15 - kMantissa)) - 1u) << kMantissa;
    const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
    const std::uint32_t sign = static_cast<std::uint32_t>(bits >> 63) << 15;
    if ((bits >> 52 & 0x7ff) == 0x7ff) {
        const bool is_nan = (bits & 0xfffffffffffffull) != 0;
        return static_cast<std::uint16_t>(sign | kInfinity | (is_nan ? 1u << (kMantissa - 1) : 0u));
    }
    const std::uint64_t magnitude = encode_magnitude<kMantissa, 15 - kMantissa>(value);
    return static_cast<std::uint16_t>(sign | (magnitude > kInfinity ? kInfinity : static_cast<std::uint32_t>(magnitude)));
}

// To an 8-bit format, whose numbers must reach as far as the value does.
template <int kMantissa>
std::uint8_t encode_8(double value) {
    const std::uint64_t sign = std::bit_cast<std::uint64_t>(value) >> 63 << 7;
    return static_cast<std::uint8_t>(sign | encode_magnitude<kMantissa, 7 - kMantissa>(value));
}

inline std::uint16_t encode_f16(double value) { return encode_16<10>(value); }
inline std::uint16_t encode_bf16(double value) { return encode_16<7>(value); }

inline std::int64_t offset_of(const attile_operand &x, std::int64_t i0, std::int64_t i1 = 0, std::int64_t i2 = 0, std::int64_t i3 = 0) {
    return i0 * x.stride[0] + i1 * x.stride[1] + i2 * x.stride[2] + i3 * x.stride[3];
}

/// The number `at` of those that share bytes, the first in the lower half.
inline int four_bits(const std::uint8_t *data, std::int64_t at) { return data[at >> 1] >> (at & 1) * 4 & 15; }

inline double load(const attile_operand &x, std::int64_t i0, std::int64_t i1 = 0, std::int64_t i2 = 0, std::int64_t i3 = 0) {
    const std::int64_t at = offset_of(x, i0, i1, i2, i3);
    switch (x.dtype) {
        case ATTILE_F64:
            return static_cast<const double *>(x.data)[at];
        case ATTILE_F32:
            return decode_f32(static_cast<const float *>(x.data)[at]);
        case ATTILE_F16:
            return decode_f16(static_cast<const std::uint16_t *>(x.data)[at]);
        case ATTILE_I8:
            return static_cast<double>(static_cast<const std::int8_t *>(x.data)[at]);
        case ATTILE_F8_E4M3:
            return decode_e4m3(static_cast<const std::uint8_t *>(x.data)[at]);
        case ATTILE_F8_E5M2:
            return decode_e5m2(static_cast<const std::uint8_t *>(x.data)[at]);
        case ATTILE_I4:
        case ATTILE_U4: {
            const int number = four_bits(static_cast<const std::uint8_t *>(x.data), at);
            return x.dtype == ATTILE_I4 && number >= 8 ? number - 16 : number;
        }
        default:
            return decode_bf16(static_cast<const std::uint16_t *>(x.data)[at]);
    }
}

inline void store(const attile_operand &x, double value, std::int64_t i0, std::int64_t i1 = 0, std::int64_t i2 = 0, std::int64_t i3 = 0) {
    const std::int64_t at = offset_of(x, i0, i1, i2, i3);
    switch (x.dtype) {
        case ATTILE_F64:
            static_cast<double *>(x.data)[at] = value;
            break;
        case ATTILE_F32:
            static_cast<float *>(x.data)[at] = static_cast<float>(value);
            break;
        case ATTILE_F16:
            static_cast<std::uint16_t *>(x.data)[at] = encode_f16(value);
            break;
        case ATTILE_I32:
            static_cast<std::int32_t *>(x.data)[at] = static_cast<std::int32_t>(value);
            break;
        default:
            static_cast<std::uint16_t *>(x.data)[at] = encode_bf16(value);
            break;
    }
}

/// Of i8, i4 or u4, at an offset.
inline void store_integer(const attile_operand &x, int number, std::int64_t at) {
    if (x.dtype == ATTILE_I8) {
        static_cast<std::int8_t *>(x.data)[at] = static_cast<std::int8_t>(number);
        return;
    }
    std::uint8_t &pair = static_cast<std::uint8_t *>(x.data)[at >> 1];
    const int shift = static_cast<int>(at & 1) * 4;
    pair = static_cast<std::uint8_t>((pair & 0xf0 >> shift) | (number & 15) << shift);
}

inline std::int64_t load_i32(const attile_operand &x, std::int64_t i0, std::int64_t i1 = 0) {
    return static_cast<const std::int32_t *>(x.data)[offset_of(x, i0, i1)];
}

/// Of i32 or i64.
inline std::int64_t load_integer(const attile_operand &x, std::int64_t i0, std::int64_t i1 = 0) {
    return x.dtype == ATTILE_I64 ? static_cast<const std::int64_t *>(x.data)[offset_of(x, i0, i1)] : load_i32(x, i0, i1);
}

inline bool load_byte(const attile_operand &x, std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
    return static_cast<const std::uint8_t *>(x.data)[offset_of(x, i0, i1, i2, i3)] != 0;
}

inline double bytes_of(const attile_operand &x) {
    switch (x.dtype) {
        case ATTILE_F64:
            return 8;
        case ATTILE_F32:
        case ATTILE_I32:
            return 4;
        case ATTILE_F16:
        case ATTILE_BF16:
            return 2;
        case 0:
            return 0;
        case ATTILE_I4:
        case ATTILE_U4:
            return 0.5;
        default:
            return 1;
    }
}

inline bool present(const attile_operand &x) { return x.dtype != 0; }

}  // namespace attile::reference
