// SPDX-License-Identifier: Apache-2.0
// Rows of floats over their scales as numbers of 8 and 4 bits: what quantisation stores, and results of products and attention.
#if defined(ATTILE_CPU_NARROW_ROW_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_NARROW_ROW_INL_H
#undef ATTILE_CPU_NARROW_ROW_INL_H
#else
#define ATTILE_CPU_NARROW_ROW_INL_H
#endif

#include "simd-inl.h"
#include "size.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

using Floats = Tag<float>;
using Ints = hn::RebindToSigned<Floats>;

// A float of at most the format's largest magnitude to the bits of 8, to nearest even. Those of a normal result are its own, rounded, with
// another bias of the exponent; a subnormal one is rounded by the adder, beside a number whose last bit is the format's.
template <int kMantissa, int kBias>
HWY_INLINE hn::Vec<Ints> float_bits(hn::Vec<Floats> v) {
    constexpr int kShift = 23 - kMantissa;
    const Floats d;
    const Ints di;
    const auto bits = hn::BitCast(di, v);
    const auto magnitude = hn::And(bits, hn::Set(di, 0x7fffffff));
    const auto beside = hn::Set(di, (127 + 23 + 1 - kBias - kMantissa) << 23);
    const auto tiny = hn::Sub(hn::BitCast(di, hn::Add(hn::BitCast(d, magnitude), hn::BitCast(d, beside))), beside);
    const auto odd = hn::And(hn::ShiftRight<kShift>(magnitude), hn::Set(di, 1));
    const auto round = hn::Set(di, (1 << (kShift - 1)) - 1 - ((127 - kBias) << 23));
    const auto normal = hn::ShiftRight<kShift>(hn::Add(hn::Add(magnitude, round), odd));
    const auto least_normal = hn::Set(di, (127 + 1 - kBias) << 23);
    const auto result = hn::IfThenElse(hn::Gt(least_normal, magnitude), tiny, normal);
    return hn::Or(result, hn::And(hn::ShiftRight<24>(bits), hn::Set(di, 0x80)));
}

template <class S>
constexpr float largest_number() {
    if (std::is_same_v<S, Int4>) return 7;
    if (std::is_same_v<S, Uint4>) return 15;
    return std::is_same_v<S, Int8> ? 127.0f : std::is_same_v<S, E4m3> ? 448.0f : 57344.0f;
}

// x / scale, of u4 plus zero, in lanes of 32 bits.
template <class S>
HWY_INLINE hn::Vec<Ints> narrow_lanes(hn::Vec<Floats> x, hn::Vec<Floats> scale, hn::Vec<Floats> zero) {
    constexpr float kMost = largest_number<S>(), kLeast = std::is_same_v<S, Uint4> ? 0 : -kMost;
    const Floats d;
    const Ints di;
    auto ratio = hn::Div(x, scale);
    if constexpr (std::is_same_v<S, Uint4>) ratio = hn::Add(ratio, zero);
    const auto is_nan = hn::IsNaN(ratio);
    ratio = hn::IfThenElse(is_nan, hn::Zero(d), ratio);
    ratio = hn::Min(hn::Max(ratio, hn::Set(d, kLeast)), hn::Set(d, kMost));
    hn::Vec<Ints> number;
    if constexpr (std::is_same_v<S, Int8> || kIsFourBits<S>) {
        number = hn::NearestInt(ratio);
    } else {
        constexpr bool kIsE4m3 = std::is_same_v<S, E4m3>;
        number = kIsE4m3 ? float_bits<3, 7>(ratio) : float_bits<2, 15>(ratio);
        number = hn::IfThenElse(hn::RebindMask(di, is_nan), hn::Set(di, kIsE4m3 ? 0x7f : 0x7e), number);
    }
    return hn::IfThenElse(hn::RebindMask(di, hn::Eq(scale, hn::Zero(d))), hn::Zero(di), number);
}

// Of four bits a number still has a byte.
template <class S>
void narrow_as(const float *x, int64_t count, int64_t group, const float *scales, const float *zeros, uint8_t *q) {
    using Byte8 = std::conditional_t<std::is_same_v<S, Int8> || std::is_same_v<S, Int4>, int8_t, uint8_t>;
    const Floats d;
    const hn::Rebind<Byte8, Floats> d8;
    Byte8 *const to = reinterpret_cast<Byte8 *>(q);
    const auto store = [&](hn::Vec<Floats> scale, hn::Vec<Floats> zero, int64_t i, int64_t end) HWY_ATTR {
        store_first(d8, hn::DemoteTo(d8, narrow_lanes<S>(load_first(d, x + i, end - i), scale, zero)), to + i, end - i);
    };
    if (group == 1) {
        for (int64_t i = 0; i < count; i += kLanes<float>) {
            const auto zero = zeros != nullptr ? load_first(d, zeros + i, count - i) : hn::Zero(d);
            store(load_first(d, scales + i, count - i), zero, i, count);
        }
        return;
    }
    for (int64_t first = 0, g = 0; first < count; first += group, ++g) {
        const int64_t end = least(count, first + group);
        const auto scale = hn::Set(d, scales[g]), zero = hn::Set(d, zeros != nullptr ? zeros[g] : 0.0f);
        for (int64_t i = first; i < end; i += kLanes<float>) store(scale, zero, i, end);
    }
}

// Numbers of 8 bits in a row that are a result, and their scales: `group` neighbours share one.
struct ResultRow {
    void *data;  // the row's first number
    int32_t dtype;
    int64_t stride;
    const float *scale;  // of the first number; NULL: all are 1
    int64_t scale_stride, group;
};

// Numbers `first` to before `first` + `count` of a row from floats.
inline HWY_NOINLINE void store_result(const ResultRow &row, int64_t first, int64_t count, const float *x) {
    constexpr int64_t kRun = 64;
    const bool has_one = row.scale == nullptr || row.scale_stride == 0;
    float scales[kRun];
    uint8_t room[kRun];
    uint8_t *const out = static_cast<uint8_t *>(row.data) + first * row.stride;
    for (int64_t c = 0; c < count; c += kRun) {
        const int64_t here = count - c < kRun ? count - c : kRun;
        if (has_one) {
            scales[0] = row.scale == nullptr ? 1.0f : *row.scale;
        } else {
            for (int64_t i = 0; i < here; ++i) scales[i] = row.scale[(first + c + i) / row.group * row.scale_stride];
        }
        uint8_t *const to = row.stride == 1 ? out + c : room;
        with_narrow_storage(row.dtype,
                            [&](auto s) HWY_ATTR { narrow_as<decltype(s)>(x + c, here, has_one ? here : 1, scales, nullptr, to); });
        if (row.stride == 1) continue;
        for (int64_t i = 0; i < here; ++i) out[(c + i) * row.stride] = room[i];
    }
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
