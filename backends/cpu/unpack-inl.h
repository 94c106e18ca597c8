// SPDX-License-Identifier: Apache-2.0
// Numbers of 4 bits, two a byte, as floats.
#if defined(ATTILE_CPU_UNPACK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_UNPACK_INL_H
#undef ATTILE_CPU_UNPACK_INL_H
#else
#define ATTILE_CPU_UNPACK_INL_H
#endif

#include "simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

using IntLanes = hn::RebindToSigned<Tag<float>>;
// Numbers that a vector of bytes, one for each lane, holds.
inline constexpr int64_t kBytesOfPairs = 2 * kLanes<float>;

// The lowest four bits of each lane, whatever the others are, as numbers.
template <class S>
HWY_INLINE Vec<float> float_of_bits(hn::Vec<IntLanes> bits) {
    const Tag<float> d;
    const IntLanes di;
    if constexpr (std::is_same_v<S, Int4>) return hn::ConvertTo(d, hn::ShiftRight<28>(hn::ShiftLeft<28>(bits)));
    return hn::ConvertTo(d, hn::And(bits, hn::Set(di, 15)));
}

// A byte for each lane.
HWY_INLINE hn::Vec<IntLanes> load_bytes_of_pairs(const uint8_t *bytes) {
    return hn::PromoteTo(IntLanes(), hn::LoadU(hn::Rebind<uint8_t, Tag<float>>(), bytes));
}

// `count` numbers from number `at` on, as floats one after the other.
template <class S>
HWY_INLINE void unpack(const S *data, int64_t at, int64_t count, float *out) {
    const Tag<float> d;
    int64_t i = 0;
    const auto one = [&] {
        out[i] = four_bits_to_float(data[(at + i) >> 1], (at + i) & 1);
        ++i;
    };
    if ((at & 1) != 0 && count > 0) one();
    while (i + kBytesOfPairs <= count) {
        const auto pairs = load_bytes_of_pairs(&data[(at + i) >> 1].bits);
        hn::StoreInterleaved2(float_of_bits<S>(pairs), float_of_bits<S>(hn::ShiftRight<4>(pairs)), d, out + i);
        i += kBytesOfPairs;
    }
    while (i < count) one();
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
