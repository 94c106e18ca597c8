// SPDX-License-Identifier: Apache-2.0
// What arithmetic instructions make of a lane's operands.
#pragma once

#include <cfenv>
#include <cmath>
#include <limits>
#include <type_traits>

#include "ptx_machine.h"

namespace attile::virtual_gpu {

// Arithmetic. Integers wrap around.
template <class T>
T plus(T a, T b) {
    if constexpr (std::is_integral_v<T>)
        return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else
        return a + b;
}
template <class T>
T minus(T a, T b) {
    if constexpr (std::is_integral_v<T>)
        return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
    else
        return a - b;
}
template <class T>
T times(T a, T b) {
    if constexpr (std::is_integral_v<T>)
        return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
        return a * b;
}
template <class T>
using Twice = std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
                                 std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                                                    std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;
template <class T>
Twice<T> times_wide(T a, T b) {
    return static_cast<Twice<T>>(static_cast<Twice<T>>(a) * static_cast<Twice<T>>(b));
}
template <class T>
T times_high(T a, T b) {
    return static_cast<T>((static_cast<Twice<T>>(a) * static_cast<Twice<T>>(b)) >> (8 * sizeof(T)));
}
template <class T>
T times_plus(T a, T b, T c) {
    return plus<T>(times<T>(a, b), c);
}
template <class T>
Twice<T> times_wide_plus(T a, T b, Twice<T> c) {
    return plus<Twice<T>>(times_wide<T>(a, b), c);
}
template <class T>
T times_high_plus(T a, T b, T c) {
    return plus<T>(times_high<T>(a, b), c);
}
// Of float32, rounded towards zero; the product is exact in float64.
inline float times_towards_zero(float a, float b) {
    const double exact = static_cast<double>(a) * b;
    const float nearest = static_cast<float>(exact);
    return std::fabs(static_cast<double>(nearest)) > std::fabs(exact) ? std::nextafter(nearest, 0.0f) : nearest;
}
template <class T>
T over(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
        if (b == 0) return static_cast<T>(-1);
        if constexpr (std::is_signed_v<T>)
            if (b == -1) return minus<T>(0, a);
        return static_cast<T>(a / b);
    } else {
        return a / b;
    }
}
template <class T>
T rest_of(T a, T b) {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>)
        if (b == -1) return 0;
    return static_cast<T>(a % b);
}
template <class T>
T least(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
        return std::fmin(a, b);
    else
        return a < b ? a : b;
}
template <class T>
T most(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
        return std::fmax(a, b);
    else
        return a > b ? a : b;
}
template <class T>
T least_or_nan(T a, T b) {
    return a != a || b != b ? std::numeric_limits<T>::quiet_NaN() : std::fmin(a, b);
}
template <class T>
T most_or_nan(T a, T b) {
    return a != a || b != b ? std::numeric_limits<T>::quiet_NaN() : std::fmax(a, b);
}
template <class T>
T fused(T a, T b, T c) {
    return std::fma(a, b, c);
}
inline float fused_down(float a, float b, float c) {
    const int before = std::fegetround();
    std::fesetround(FE_DOWNWARD);
    volatile float x = a, y = b, z = c;
    volatile float sum = std::fma(x, y, z);
    std::fesetround(before);
    return sum;
}
template <float (*kWiden)(uint16_t), uint16_t (*kNarrow)(float)>
uint32_t fused_pair(uint32_t a, uint32_t b, uint32_t c) {
    // The product is exact in float64, and so is the sum but for numbers very far apart.
    const auto one = [](uint32_t x, uint32_t y, uint32_t z) {
        const auto wide = [](uint32_t bits) { return static_cast<double>(kWiden(static_cast<uint16_t>(bits))); };
        return static_cast<uint32_t>(kNarrow(static_cast<float>(wide(x) * wide(y) + wide(z))));
    };
    return one(a, b, c) | one(a >> 16, b >> 16, c >> 16) << 16;
}
template <class T>
T opposite(T a) {
    if constexpr (std::is_integral_v<T>)
        return minus<T>(0, a);
    else
        return -a;
}
template <class T>
T magnitude(T a) {
    if constexpr (std::is_integral_v<T>)
        return a < 0 ? minus<T>(0, a) : a;
    else
        return std::fabs(a);
}
template <class T>
T with_sign(T sign, T a) {
    return std::copysign(a, sign);
}
inline float exp2_of(float x) { return std::exp2(x); }
inline float exp2_flushing(float x) {
    const float y = std::exp2(std::fabs(x) < std::numeric_limits<float>::min() ? 0.0f : x);
    return y < std::numeric_limits<float>::min() ? 0.0f : y;
}
inline float log2_of(float x) { return std::log2(x); }
template <class T>
T inverse(T x) {
    return 1 / x;
}
template <class T>
T root(T x) {
    return std::sqrt(x);
}
template <class T>
T inverse_root(T x) {
    return 1 / std::sqrt(x);
}
inline float tanh_of(float x) { return std::tanh(x); }
inline float sine(float x) { return std::sin(x); }
inline float cosine(float x) { return std::cos(x); }

template <class T>
T both(T a, T b) {
    return static_cast<T>(a & b);
}
template <class T>
T either(T a, T b) {
    return static_cast<T>(a | b);
}
template <class T>
T differs(T a, T b) {
    return static_cast<T>(a ^ b);
}
template <class T>
T inverted(T a) {
    return static_cast<T>(~a);
}
template <class T>
T same(T a) {
    return a;
}
template <class T>
T left(T a, uint32_t by) {
    return by >= 8 * sizeof(T) ? T{0} : static_cast<T>(a << by);
}
template <class T>
T right(T a, uint32_t by) {
    const uint32_t most_bits = 8 * sizeof(T) - 1;
    if (by > most_bits) return std::is_signed_v<T> ? static_cast<T>(a >> most_bits) : T{0};
    return static_cast<T>(a >> by);
}
inline uint32_t bytes_chosen(uint32_t a, uint32_t b, uint32_t choice) {
    const uint64_t all = static_cast<uint64_t>(b) << 32 | a;
    uint32_t result = 0;
    for (int i = 0; i < 4; ++i) {
        const uint32_t which = choice >> (4 * i) & 15;
        uint32_t byte = static_cast<uint32_t>(all >> (8 * (which & 7))) & 255;
        if (which >= 8) byte = (byte & 128) != 0 ? 255 : 0;
        result |= byte << (8 * i);
    }
    return result;
}
inline uint32_t reversed(uint32_t a) {
    uint32_t result = 0;
    for (int i = 0; i < 32; ++i) result |= (a >> i & 1) << (31 - i);
    return result;
}
inline uint32_t ones(uint32_t a) { return static_cast<uint32_t>(__builtin_popcount(a)); }
inline uint32_t zeros_above(uint32_t a) { return a == 0 ? 32 : static_cast<uint32_t>(__builtin_clz(a)); }
inline uint32_t shift_to_highest(uint32_t a) { return a == 0 ? ~0u : static_cast<uint32_t>(__builtin_clz(a)); }
inline uint32_t highest(uint32_t a) { return a == 0 ? ~0u : 31 - static_cast<uint32_t>(__builtin_clz(a)); }
inline uint32_t sum_of_bytes(uint32_t a, uint32_t b, uint32_t c) {
    for (int i = 0; i < 4; ++i) c += (a >> (8 * i) & 255) * (b >> (8 * i) & 255);
    return c;
}

inline uint32_t sum_of_signed_bytes(uint32_t a, uint32_t b, uint32_t c) {
    for (int i = 0; i < 32; i += 8) c += static_cast<uint32_t>(static_cast<int8_t>(a >> i) * static_cast<int8_t>(b >> i));
    return c;
}

template <class T>
bool eq(T a, T b) {
    return a == b;
}
template <class T>
bool ne(T a, T b) {
    return a < b || a > b;
}
template <class T>
bool lt(T a, T b) {
    return a < b;
}
template <class T>
bool le(T a, T b) {
    return a <= b;
}
template <class T>
bool gt(T a, T b) {
    return a > b;
}
template <class T>
bool ge(T a, T b) {
    return a >= b;
}
template <class T>
bool equ(T a, T b) {
    return !(a < b || a > b);
}
template <class T>
bool neu(T a, T b) {
    return !(a == b);
}
template <class T>
bool ltu(T a, T b) {
    return !(a >= b);
}
template <class T>
bool leu(T a, T b) {
    return !(a > b);
}
template <class T>
bool gtu(T a, T b) {
    return !(a <= b);
}
template <class T>
bool geu(T a, T b) {
    return !(a < b);
}
template <class T>
bool num(T a, T b) {
    return a == a && b == b;
}
template <class T>
bool nan(T a, T b) {
    return !(a == a && b == b);
}

}  // namespace attile::virtual_gpu
