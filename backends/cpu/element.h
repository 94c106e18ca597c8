// SPDX-License-Identifier: Apache-2.0
// Storage types, one element at a time: for strided access and edges. Vectors of them are converted in simd-inl.h.
#ifndef ATTILE_CPU_ELEMENT_H
#define ATTILE_CPU_ELEMENT_H

#include <attile/attile.h>

#include <bit>
#include <cstdint>
#include <type_traits>

namespace attile::cpu {

struct Half {
    uint16_t bits;
};
struct Brain {
    uint16_t bits;
};

// Numbers of 8 bits, whose scales are not theirs.
struct Int8 {
    int8_t bits;
};
struct E4m3 {
    uint8_t bits;
};
struct E5m2 {
    uint8_t bits;
};

// Two numbers of 4 bits, the first in the lower half.
struct Int4 {
    uint8_t bits;
};
struct Uint4 {
    uint8_t bits;
};
template <class S>
inline constexpr bool kIsFourBits = std::is_same_v<S, Int4> || std::is_same_v<S, Uint4>;

inline float four_bits_to_float(Uint4 pair, int64_t which) { return static_cast<float>(pair.bits >> which * 4 & 15); }
inline float four_bits_to_float(Int4 pair, int64_t which) { return static_cast<float>(((pair.bits >> which * 4 & 15) ^ 8) - 8); }

inline float half_to_float(uint16_t bits) {
    const uint32_t magnitude = bits & 0x7fffu;
    const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
    const uint32_t special = magnitude >= 0x7c00u ? 0x7f800000u : 0u;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | special | (bits & 0x8000u) << 16);
}

// Four bits of exponent are those of a float16 whose exponent is less by 8. All ones are NaN.
inline float e4m3_to_float(uint8_t bits) {
    const unsigned magnitude = bits & 0x7fu;
    if (magnitude == 0x7fu) return std::bit_cast<float>(0x7fc00000u);
    return half_to_float(static_cast<uint16_t>(magnitude << 7 | (bits & 0x80u) << 8)) * 0x1p8f;
}

inline uint16_t float_to_half(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t sign = (bits ^ magnitude) >> 16;
    uint32_t result;
    if (magnitude > 0x7f800000u) {
        result = 0x7e00u;
    } else if (magnitude >= 0x47800000u) {
        result = 0x7c00u;
    } else if (magnitude < 0x38800000u) {
        result = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    } else {
        result = (magnitude + 0xc8000fffu + (magnitude >> 13 & 1u)) >> 13;
    }
    return static_cast<uint16_t>(result | sign);
}

inline uint16_t float_to_brain(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    if (value != value) return static_cast<uint16_t>((bits | 0x00400000u) >> 16);
    return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

template <class T, class S>
inline T to_compute(S element) {
    if constexpr (std::is_same_v<S, Half>) {
        return static_cast<T>(half_to_float(element.bits));
    } else if constexpr (std::is_same_v<S, Brain>) {
        return static_cast<T>(std::bit_cast<float>(static_cast<uint32_t>(element.bits) << 16));
    } else if constexpr (std::is_same_v<S, Int8>) {
        return static_cast<T>(element.bits);
    } else if constexpr (std::is_same_v<S, E4m3>) {
        return static_cast<T>(e4m3_to_float(element.bits));
    } else if constexpr (std::is_same_v<S, E5m2>) {
        return static_cast<T>(half_to_float(static_cast<uint16_t>(element.bits << 8)));
    } else {
        return static_cast<T>(element);
    }
}

// What a storage type is called in a problem.
template <class S>
inline constexpr int32_t kDtype = std::is_same_v<S, Half>    ? ATTILE_F16
                                  : std::is_same_v<S, Brain> ? ATTILE_BF16
                                  : std::is_same_v<S, Int8>  ? ATTILE_I8
                                  : std::is_same_v<S, E4m3>  ? ATTILE_F8_E4M3
                                  : std::is_same_v<S, E5m2>  ? ATTILE_F8_E5M2
                                  : sizeof(S) == 4           ? ATTILE_F32
                                                             : ATTILE_F64;

// A number on its way to 16 bits. Of a double that is no float the last bit is set (rounding to odd), so that it is rounded once, not
// twice.
inline float before_sixteen_bits(float value) { return value; }
inline float before_sixteen_bits(double value) {
    const float nearest = static_cast<float>(value);
    const double back = static_cast<double>(nearest);
    if (back == value || value != value) return nearest;
    const bool away = (value < 0 ? -back : back) > (value < 0 ? -value : value);
    return std::bit_cast<float>((std::bit_cast<uint32_t>(nearest) - (away ? 1u : 0u)) | 1u);
}

template <class S, class T>
inline S to_storage(T value) {
    if constexpr (std::is_same_v<S, Half>) {
        return Half{float_to_half(before_sixteen_bits(value))};
    } else if constexpr (std::is_same_v<S, Brain>) {
        return Brain{float_to_brain(before_sixteen_bits(value))};
    } else {
        return static_cast<S>(value);
    }
}

// Bytes of a mask.
using Byte = uint8_t;

// Calls fn(S{}) with the storage type of an operand that is computed in T: of double itself or float, of float itself or one of 16 bits.
template <class T, class Fn>
inline auto with_storage(int32_t dtype, Fn &&fn) {
    if constexpr (std::is_same_v<T, double>) {
        return dtype == ATTILE_F32 ? fn(float{}) : fn(double{});
    } else {
        if (dtype == ATTILE_F16) return fn(Half{});
        if (dtype == ATTILE_BF16) return fn(Brain{});
        return fn(float{});
    }
}

// The same for what may be stored narrower than any operand of the call: a merge of float64 parts writes 16 bits.
template <class T, class Fn>
inline auto with_any_storage(int32_t dtype, Fn &&fn) {
    if constexpr (std::is_same_v<T, double>) {
        if (dtype == ATTILE_F16) return fn(Half{});
        if (dtype == ATTILE_BF16) return fn(Brain{});
    }
    return with_storage<T>(dtype, fn);
}

// Whether a type is one of 8 or 4 bits, of 4 bits; and fn(S{}) with one of 8, or of either.
inline bool is_four_bits(int32_t dtype) { return dtype == ATTILE_I4 || dtype == ATTILE_U4; }
inline bool is_narrow(int32_t dtype) {
    return dtype == ATTILE_I8 || dtype == ATTILE_F8_E4M3 || dtype == ATTILE_F8_E5M2 || is_four_bits(dtype);
}
template <class Fn>
inline auto with_narrow_storage(int32_t dtype, Fn &&fn) {
    if (dtype == ATTILE_I8) return fn(Int8{});
    if (dtype == ATTILE_F8_E4M3) return fn(E4m3{});
    return fn(E5m2{});
}

// The same for rows of attention.
template <class T, class Fn>
inline auto with_cache_storage(int32_t dtype, Fn &&fn) {
    if constexpr (std::is_same_v<T, float>) {
        if (is_narrow(dtype)) return with_narrow_storage(dtype, fn);
    }
    return with_storage<T>(dtype, fn);
}

template <class Fn>
inline auto with_four_bits(int32_t dtype, Fn &&fn) {
    return dtype == ATTILE_I4 ? fn(Int4{}) : fn(Uint4{});
}
// The same for its keys and values.
template <class T, class Fn>
inline auto with_key_storage(int32_t dtype, Fn &&fn) {
    if constexpr (std::is_same_v<T, float>) {
        if (is_four_bits(dtype)) return with_four_bits(dtype, fn);
    }
    return with_cache_storage<T>(dtype, fn);
}
template <class Fn>
inline auto with_scaled_storage(int32_t dtype, Fn &&fn) {
    return is_four_bits(dtype) ? with_four_bits(dtype, fn) : with_narrow_storage(dtype, fn);
}

template <class T>
inline T load_element(const void *data, int32_t dtype, int64_t index) {
    return with_storage<T>(dtype, [&](auto s) { return to_compute<T>(static_cast<const decltype(s) *>(data)[index]); });
}

template <class T>
inline void store_element(void *data, int32_t dtype, int64_t index, T value) {
    with_any_storage<T>(dtype, [&](auto s) { static_cast<decltype(s) *>(data)[index] = to_storage<decltype(s)>(value); });
}

}  // namespace attile::cpu

#endif  // ATTILE_CPU_ELEMENT_H
