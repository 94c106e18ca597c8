// SPDX-License-Identifier: Apache-2.0
// Vectors of float and double with every storage type converted on the way in and out, whole or in part.
//
// Included once per target (no usual include guard). Partial loads and stores never touch memory beyond their elements.
#if defined(ATTILE_CPU_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_SIMD_INL_H
#undef ATTILE_CPU_SIMD_INL_H
#else
#define ATTILE_CPU_SIMD_INL_H
#endif

#include <attile/attile.h>
#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "element.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vec = hn::Vec<Tag<T>>;
// Lanes of a whole vector, a constant on every target compiled.
template <class T>
inline constexpr int kLanes = static_cast<int>(HWY_MAX_BYTES / sizeof(T));

// Sums of pairs of int16, two in each lane. NEON keeps the products of even and odd numbers apart until the end.
struct PairSum {
    static HWY_INLINE Vec<int32_t> add(Vec<int32_t> thin, Vec<int32_t> wide, Vec<int32_t> sum, Vec<int32_t> &other) {
        const Tag<int32_t> d;
        const hn::Repartition<int16_t, decltype(d)> d16;
        return hn::ReorderWidenMulAccumulate(d, hn::BitCast(d16, thin), hn::BitCast(d16, wide), sum, other);
    }
    static HWY_INLINE Vec<int32_t> value(Vec<int32_t> sum, Vec<int32_t> other) { return hn::RearrangeToOddPlusEven(sum, other); }
};

// Targets with masked loads and stores that leave the other lanes' memory alone.
#undef ATTILE_CPU_MASKED_MEMORY
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
#define ATTILE_CPU_MASKED_MEMORY 1
#else
#define ATTILE_CPU_MASKED_MEMORY 0
#endif
// The least bytes of an element that they take.
inline constexpr size_t kMaskedBytes = HWY_TARGET == HWY_AVX3 ? 2 : 4;

// The first `count` lanes (0 .. lanes), the others 0.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_first(D d, const T *p, int64_t count) {
    if (count >= static_cast<int64_t>(hn::Lanes(d))) return hn::LoadU(d, p);
    if (count <= 0) return hn::Zero(d);
#if ATTILE_CPU_MASKED_MEMORY
    if constexpr (sizeof(T) >= kMaskedBytes) return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(count)), d, p);
#endif
    HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)] = {};
    std::memcpy(lanes, p, static_cast<size_t>(count) * sizeof(T));
    return hn::Load(d, lanes);
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_first(D d, hn::Vec<D> v, T *p, int64_t count) {
    if (count >= static_cast<int64_t>(hn::Lanes(d))) {
        hn::StoreU(v, d, p);
        return;
    }
    if (count <= 0) return;
#if ATTILE_CPU_MASKED_MEMORY
    if constexpr (sizeof(T) >= kMaskedBytes) {
        hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(count)), d, p);
        return;
    }
#endif
    HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)];
    hn::Store(v, d, lanes);
    std::memcpy(p, lanes, static_cast<size_t>(count) * sizeof(T));
}

// max(low, x) and min(high, x) that keep a NaN in x. On x86 the second operand of the instruction wins, on Arm a number wins over NaN.
template <class D>
HWY_INLINE hn::Vec<D> at_least(D, hn::Vec<D> low, hn::Vec<D> x) {
#if HWY_TARGET == HWY_NEON
    return hn::IfThenElse(hn::Lt(x, low), low, x);
#else
    return hn::Max(low, x);
#endif
}
template <class D>
HWY_INLINE hn::Vec<D> at_most(D, hn::Vec<D> high, hn::Vec<D> x) {
#if HWY_TARGET == HWY_NEON
    return hn::IfThenElse(hn::Gt(x, high), high, x);
#else
    return hn::Min(high, x);
#endif
}

// float16 bits in 32-bit lanes to float. The product scales the exponent and makes subnormals normal. (Comparisons are signed: Highway has
// no others for integers everywhere, and every number here is below 2^31.)
template <class D32>
HWY_INLINE hn::Vec<D32> half_to_float(D32 d, hn::Vec<hn::RebindToSigned<D32>> bits) {
    const hn::RebindToSigned<D32> di;
    const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(di, 0x8000)));
    const auto magnitude = hn::And(bits, hn::Set(di, 0x7fff));
    const auto scaled = hn::Mul(hn::BitCast(d, hn::ShiftLeft<13>(magnitude)), hn::Set(d, 0x1p112f));
    const auto exponent = hn::IfThenElseZero(hn::Gt(magnitude, hn::Set(di, 0x7bff)), hn::Set(di, 0x7f800000));
    return hn::BitCast(d, hn::Or(sign, hn::Or(hn::BitCast(di, scaled), exponent)));
}

// float to float16 bits in 32-bit lanes, to nearest even.
template <class D32>
HWY_INLINE hn::Vec<hn::RebindToSigned<D32>> float_to_half(D32 d, hn::Vec<D32> v) {
    const hn::RebindToSigned<D32> di;
    const hn::RebindToUnsigned<D32> du;
    const auto bits = hn::BitCast(di, v);
    const auto magnitude = hn::And(bits, hn::Set(di, 0x7fffffff));
    const auto sign = hn::BitCast(di, hn::ShiftRight<16>(hn::BitCast(du, hn::Xor(bits, magnitude))));
    // Subnormal results: adding 0.5 makes the adder round at 2^-24.
    const auto tiny = hn::Sub(hn::BitCast(di, hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5f))), hn::Set(di, 0x3f000000));
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(di, 1));
    // The exponent goes from bias 127 to 15; 0xfff and the last bit that stays round to nearest even.
    const auto normal = hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, hn::Set(di, 0xfff - (112 << 23))), odd));
    auto result = hn::IfThenElse(hn::Gt(hn::Set(di, 0x38800000), magnitude), tiny, normal);
    result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x477fffff)), hn::Set(di, 0x7c00), result);
    result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7f800000)), hn::Set(di, 0x7e00), result);
    return hn::Or(result, sign);
}

// float to bfloat16 bits in 32-bit lanes, to nearest even; NaN stays NaN.
template <class D32>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D32>> float_to_brain(D32 /*d*/, hn::Vec<D32> v) {
    const hn::RebindToUnsigned<D32> du;
    const auto bits = hn::BitCast(du, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu)));
    const auto quiet = hn::Or(bits, hn::Set(du, 0x00400000u));
    const auto is_nan = hn::RebindMask(du, hn::IsNaN(v));
    return hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded));
}

// Targets that convert float16 in one instruction.
#undef ATTILE_CPU_NATIVE_HALF
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_NEON
#define ATTILE_CPU_NATIVE_HALF 1
#else
#define ATTILE_CPU_NATIVE_HALF 0
#endif

// float16 bits to float.
template <class D>
HWY_INLINE hn::Vec<D> promote_half(D d, hn::Vec<hn::Rebind<uint16_t, D>> bits) {
#if ATTILE_CPU_NATIVE_HALF
    const hn::Rebind<hwy::float16_t, D> dh;
    return hn::PromoteTo(d, hn::BitCast(dh, bits));
#else
    const hn::RebindToSigned<D> di;
    const hn::RebindToUnsigned<D> du;
    return half_to_float(d, hn::BitCast(di, hn::PromoteTo(du, bits)));
#endif
}

// Up to a vector of float from numbers of 8 bits.
template <class S, class D>
HWY_INLINE hn::Vec<D> load_narrow(D d, const S *p, int64_t count) {
    if constexpr (std::is_same_v<S, Int8>) {
        const hn::Rebind<int8_t, D> d8;
        const hn::RebindToSigned<D> di;
        return hn::ConvertTo(d, hn::PromoteTo(di, load_first(d8, &p->bits, count)));
    } else {
        const hn::Rebind<uint8_t, D> d8;
        const hn::Rebind<uint16_t, D> d16;
        const auto raw = hn::PromoteTo(d16, load_first(d8, &p->bits, count));
        if constexpr (std::is_same_v<S, E5m2>) return promote_half(d, hn::ShiftLeft<8>(raw));
        // As e4m3_to_float(): all ones come out as 480.
        const auto sign = hn::ShiftLeft<8>(hn::And(raw, hn::Set(d16, uint16_t{0x80})));
        const auto half = hn::Or(sign, hn::ShiftLeft<7>(hn::And(raw, hn::Set(d16, uint16_t{0x7f}))));
        const auto value = hn::Mul(promote_half(d, half), hn::Set(d, 0x1p8f));
        return hn::IfThenElse(hn::Gt(hn::Abs(value), hn::Set(d, 450.0f)), hn::NaN(d), value);
    }
}

// Up to a vector of T from elements of S.
template <class S, class D>
HWY_INLINE hn::Vec<D> load_as(D d, const S *p, int64_t count = int64_t{1} << 30) {
    using T = hn::TFromD<D>;
    if constexpr (std::is_same_v<S, Byte>) {
        // A mask: the bytes' values.
        HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)] = {};
        const int64_t n = count < static_cast<int64_t>(hn::Lanes(d)) ? count : static_cast<int64_t>(hn::Lanes(d));
        for (int64_t i = 0; i < n; ++i) lanes[i] = static_cast<T>(p[i]);
        return hn::LoadU(d, lanes);
    } else if constexpr (sizeof(S) == 1) {
        return load_narrow(d, p, count);
    } else if constexpr (sizeof(S) == sizeof(T)) {
        static_assert(std::is_same_v<S, T>);
        return load_first(d, p, count);
    } else if constexpr (sizeof(T) == 8 && sizeof(S) == 4) {
        const hn::Rebind<float, D> df;
        return hn::PromoteTo(d, load_first(df, p, count));
    } else {
        static_assert(sizeof(T) == 4 && sizeof(S) == 2);
        const hn::Rebind<uint16_t, D> d16;
        const auto raw = load_first(d16, &p->bits, count);
        if constexpr (std::is_same_v<S, Brain>) {
            const hn::RebindToUnsigned<D> du;
            return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, raw)));
        } else {
            return promote_half(d, raw);
        }
    }
}

// Up to a vector of T to elements of S.
template <class S, class D>
HWY_INLINE void store_as(D d, hn::Vec<D> v, S *p, int64_t count = int64_t{1} << 30) {
    using T = hn::TFromD<D>;
    if constexpr (sizeof(S) == sizeof(T)) {
        static_assert(std::is_same_v<S, T>);
        store_first(d, v, p, count);
    } else if constexpr (sizeof(T) == 8 && sizeof(S) == 4) {
        const hn::Rebind<float, D> df;
        store_first(df, hn::DemoteTo(df, v), p, count);
    } else {
        static_assert(sizeof(T) == 4 && sizeof(S) == 2);
        const hn::Rebind<uint16_t, D> d16;
        if constexpr (std::is_same_v<S, Brain>) {
            const hn::RebindToSigned<D> di;
            store_first(d16, hn::DemoteTo(d16, hn::BitCast(di, float_to_brain(d, v))), &p->bits, count);
        } else {
#if ATTILE_CPU_NATIVE_HALF
            const hn::Rebind<hwy::float16_t, D> dh;
            store_first(d16, hn::BitCast(d16, hn::DemoteTo(dh, v)), &p->bits, count);
#else
            store_first(d16, hn::DemoteTo(d16, float_to_half(d, v)), &p->bits, count);
#endif
        }
    }
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
