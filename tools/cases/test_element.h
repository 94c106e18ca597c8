// SPDX-License-Identifier: Apache-2.0
// Elements of every data type as double and back, for test data. Of its own, so that a fault of a backend's conversions shows.
#pragma once

#include <attile/attile.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace attile::test {

inline std::int64_t element_bytes(std::int32_t dtype) { return (dtype & 0xff) / 8; }

inline bool is_float(std::int32_t dtype) {
    return dtype == ATTILE_F32 || dtype == ATTILE_F64 || dtype == ATTILE_F16 || dtype == ATTILE_BF16;
}

inline bool is_float8(std::int32_t dtype) { return dtype == ATTILE_F8_E4M3 || dtype == ATTILE_F8_E5M2; }
/// Two numbers of such a type share a byte, the first has the lower half.
inline bool is_four_bits(std::int32_t dtype) { return dtype == ATTILE_I4 || dtype == ATTILE_U4; }
/// Numbers that scales may belong to.
inline bool is_quantised(std::int32_t dtype) { return dtype == ATTILE_I8 || is_float8(dtype) || is_four_bits(dtype); }
/// Of integers that scales may belong to, the least and the largest.
struct IntegerRange {
    double least, largest;
};
inline IntegerRange integer_range(std::int32_t dtype) {
    if (dtype == ATTILE_I4) return {-8, 7};
    if (dtype == ATTILE_U4) return {0, 15};
    return {-128, 127};
}

inline const char *dtype_name(std::int32_t dtype) {
    switch (dtype) {
        case ATTILE_F32:
            return "f32";
        case ATTILE_F64:
            return "f64";
        case ATTILE_F16:
            return "f16";
        case ATTILE_BF16:
            return "bf16";
        case ATTILE_I32:
            return "i32";
        case ATTILE_U8:
            return "u8";
        case ATTILE_BOOL:
            return "bool";
        case ATTILE_I8:
            return "i8";
        case ATTILE_F8_E4M3:
            return "e4m3";
        case ATTILE_F8_E5M2:
            return "e5m2";
        case ATTILE_I4:
            return "i4";
        case ATTILE_U4:
            return "u4";
        default:
            return "?";
    }
}

/// What rounding to a storage type may cost: |x - round(x)| <= unit |x| + tiny, as long as |round(x)| <= largest.
struct Precision {
    double unit;
    double tiny;
    double largest;
    int mantissa_bits;
    int min_exponent;
};

inline Precision precision_of(std::int32_t dtype) {
    switch (dtype) {
        case ATTILE_F64:
            return {0x1p-53, 0x1p-1074, std::numeric_limits<double>::max(), 52, -1022};  // Half a step is no number.
        case ATTILE_F32:
            return {0x1p-24, 0x1p-150, std::numeric_limits<float>::max(), 23, -126};
        case ATTILE_F16:
            return {0x1p-11, 0x1p-25, 65504, 10, -14};
        case ATTILE_F8_E4M3:
            return {0x1p-4, 0x1p-10, 448, 3, -6};
        case ATTILE_F8_E5M2:
            return {0x1p-3, 0x1p-17, 57344, 2, -14};
        case ATTILE_I32:
            return {0, 0, std::numeric_limits<std::int32_t>::max(), 31, 0};
        default:
            return {0x1p-8, 0x1p-134, 0x1.fep127, 7, -126};
    }
}

/// 2^exponent, of a normal double. A product with it is exact where ldexp() is.
inline double power_of_two(int exponent) {
    const std::uint64_t bits = static_cast<std::uint64_t>(exponent + 1023) << 52;
    double x = 0;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}
/// Of a finite number other than 0: as ilogb(), but -1023 for all subnormal ones.
inline int exponent_of(double x) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &x, sizeof x);
    return static_cast<int>(bits >> 52 & 0x7ff) - 1023;
}

/// Nearest value of a storage type, ties to even; overflow becomes infinity, of 8 bits the largest number. f8_e4m3 has NaN for infinity.
inline double round_to(std::int32_t dtype, double x) {
    if (is_quantised(dtype) && !is_float8(dtype)) {
        const IntegerRange range = integer_range(dtype);
        return std::clamp(std::nearbyint(x), range.least, range.largest);
    }
    if (dtype == ATTILE_F8_E4M3 && std::isinf(x)) return std::numeric_limits<double>::quiet_NaN();
    if (dtype == ATTILE_F64 || !std::isfinite(x) || x == 0) return x;
    if (dtype == ATTILE_F32) return static_cast<double>(static_cast<float>(x));
    const Precision p = precision_of(dtype);
    const int exponent = std::max(exponent_of(x), p.min_exponent);
    const double ulp = power_of_two(exponent - p.mantissa_bits);
    const double rounded = std::nearbyint(x / ulp) * ulp;
    if (std::fabs(rounded) <= p.largest) return rounded;
    return std::copysign(is_float8(dtype) ? p.largest : std::numeric_limits<double>::infinity(), x);
}

/// The 24 bits that f32 holds, towards zero.
inline double cut_to_f32(double x) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &x, sizeof x);
    if (std::isfinite(x)) bits &= ~((std::uint64_t{1} << 29) - 1);
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

/// Bits of a float without its sign to its magnitude. The exponent that stands for infinities and NaN elsewhere is one like others in
/// f8_e4m3, all ones aside.
inline double decode_magnitude(std::int32_t dtype, unsigned bits) {
    const Precision p = precision_of(dtype);
    const int field = static_cast<int>(bits >> p.mantissa_bits), last = (is_float8(dtype) ? 0x7f : 0x7fff) >> p.mantissa_bits;
    const unsigned mantissa = bits & ((1u << p.mantissa_bits) - 1u);
    if (dtype == ATTILE_F8_E4M3 ? bits == 0x7f : field == last)
        return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
    if (field == 0) return mantissa * power_of_two(p.min_exponent - p.mantissa_bits);
    return (mantissa + (1u << p.mantissa_bits)) * power_of_two(p.min_exponent - p.mantissa_bits + field - 1);
}

inline double decode(std::int32_t dtype, const void *from) {
    const auto as = [from](auto value) {
        std::memcpy(&value, from, sizeof value);
        return value;
    };
    switch (dtype) {
        case ATTILE_F64:
            return as(double{});
        case ATTILE_F32:
            return static_cast<double>(as(float{}));
        case ATTILE_I32:
            return as(std::int32_t{});
        case ATTILE_I8:
            return as(std::int8_t{});
        case ATTILE_F16:
        case ATTILE_BF16:
        case ATTILE_F8_E4M3:
        case ATTILE_F8_E5M2:
            break;
        default:
            return as(std::uint8_t{});
    }
    const bool is_short = is_float8(dtype);
    const unsigned bits = is_short ? as(std::uint8_t{}) : as(std::uint16_t{}), sign = is_short ? 0x80u : 0x8000u;
    const double magnitude = decode_magnitude(dtype, bits & ~sign);
    return (bits & sign) != 0 ? -magnitude : magnitude;
}

/// The NaN whose bits are all ones, in every type: what outputs are filled with.
inline double unwritten() {
    double x = 0;
    std::memset(&x, 0xff, sizeof x);
    return x;
}
inline bool is_unwritten(double x) {
    const double mark = unwritten();
    return std::memcmp(&x, &mark, sizeof x) == 0;
}

/// Stores a value that round_to leaves as it is (or any value, rounding it).
inline void encode(std::int32_t dtype, double value, void *to) {
    const auto put = [to](auto x) { std::memcpy(to, &x, sizeof x); };
    switch (dtype) {
        case ATTILE_F64:
            return put(value);
        case ATTILE_F32:
            return put(static_cast<float>(value));
        case ATTILE_I32:
            return put(static_cast<std::int32_t>(value));
        case ATTILE_I8:
            return put(static_cast<std::int8_t>(value));
        case ATTILE_F16:
        case ATTILE_BF16:
        case ATTILE_F8_E4M3:
        case ATTILE_F8_E5M2:
            break;
        default:
            return put(static_cast<std::uint8_t>(value));
    }
    const Precision p = precision_of(dtype);
    const bool is_short = is_float8(dtype);
    const unsigned sign = std::signbit(value) ? is_short ? 0x80u : 0x8000u : 0u;
    const unsigned infinity = ((is_short ? 0x7fu : 0x7fffu) >> p.mantissa_bits) << p.mantissa_bits;
    const double x = std::fabs(round_to(dtype, value));
    unsigned bits = 0;
    if (is_unwritten(value))
        bits = is_short ? 0xffu : 0xffffu;
    else if (std::isnan(x))
        bits = dtype == ATTILE_F8_E4M3 ? 0x7fu : infinity | 1u << (p.mantissa_bits - 1);
    else if (std::isinf(x))
        bits = infinity;
    else if (x < power_of_two(p.min_exponent))
        bits = static_cast<unsigned>(x * power_of_two(p.mantissa_bits - p.min_exponent));
    else {
        const int exponent = exponent_of(x);
        const auto mantissa = static_cast<unsigned>(x * power_of_two(p.mantissa_bits - exponent)) - (1u << p.mantissa_bits);
        bits = static_cast<unsigned>(exponent - p.min_exponent + 1) << p.mantissa_bits | mantissa;
    }
    if (is_short) return put(static_cast<std::uint8_t>(sign | bits));
    put(static_cast<std::uint16_t>(sign | bits));
}

}  // namespace attile::test
