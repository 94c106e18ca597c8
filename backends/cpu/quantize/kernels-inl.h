// SPDX-License-Identifier: Apache-2.0
// Kernels of quantisation. Every element goes through the operations of float32 that define it, so that the bits are the reference's.
#if defined(ATTILE_CPU_QUANTIZE_KERNELS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_QUANTIZE_KERNELS_INL_H
#undef ATTILE_CPU_QUANTIZE_KERNELS_INL_H
#else
#define ATTILE_CPU_QUANTIZE_KERNELS_INL_H
#endif

#include <cmath>

#include "narrow_row-inl.h"
#include "quantize/quantize.h"
#include "simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

inline constexpr int64_t kStep = kLanes<float>;

// Sums and differences of elements `apart` from each other. Within a vector: what another lane has, plus one's own with a sign.
HWY_INLINE void rotate_lanes(float *x, int64_t count, int64_t apart) {
    const Floats d;
    HWY_ALIGN int32_t partners[static_cast<size_t>(kStep)];
    HWY_ALIGN float signs[static_cast<size_t>(kStep)];
    for (int64_t i = 0; i < kStep; ++i) {
        partners[i] = static_cast<int32_t>(i ^ apart);
        signs[i] = (i & apart) != 0 ? -1.0f : 1.0f;
    }
    const auto partner = hn::SetTableIndices(d, partners);
    const auto sign = hn::Load(d, signs);
    for (int64_t i = 0; i < count; i += kStep) {
        const auto v = hn::Load(d, x + i);
        hn::Store(hn::Add(hn::TableLookupLanes(v, partner), hn::Mul(v, sign)), d, x + i);
    }
}

// Fewer numbers than a vector has.
HWY_INLINE void rotate_few(float *x, int64_t count) {
    for (int64_t apart = 1; apart < count; apart *= 2) {
        for (int64_t i = 0; i < count; ++i) {
            if ((i & apart) != 0) continue;
            const float a = x[i], b = x[i + apart];
            x[i] = a + b;
            x[i + apart] = a - b;
        }
    }
}

// Each `rotated` of `count` elements, which are an exact number of those, in room aligned as vectors are.
void rotate(float *x, int64_t count, int64_t rotated) {
    const Floats d;
    const float factor = 1.0f / std::sqrt(static_cast<float>(rotated));
    if (rotated < kStep) {
        for (int64_t i = 0; i < count; i += rotated) rotate_few(x + i, rotated);
        for (int64_t i = 0; i < count; ++i) x[i] *= factor;
        return;
    }
    for (int64_t apart = 1; apart < rotated; apart *= 2) {
        if (apart < kStep) {
            rotate_lanes(x, count, apart);
            continue;
        }
        for (int64_t i = 0; i < count; i += 2 * apart) {
            for (int64_t j = i; j < i + apart; j += kStep) {
                const auto a = hn::Load(d, x + j), b = hn::Load(d, x + j + apart);
                hn::Store(hn::Add(a, b), d, x + j);
                hn::Store(hn::Sub(a, b), d, x + j + apart);
            }
        }
    }
    for (int64_t i = 0; i < count; i += kStep) hn::Store(hn::Mul(hn::Load(d, x + i), hn::Set(d, factor)), d, x + i);
}

const float *load_piece(const Strip &x, int64_t rotated, float *room) {
    const Floats d;
    if (x.dtype == ATTILE_F32 && x.stride == 1 && rotated == 0) return static_cast<const float *>(x.data);
    with_storage<float>(x.dtype, [&](auto s) HWY_ATTR {
        using S = decltype(s);
        const S *const from = static_cast<const S *>(x.data);
        if (x.stride == 1) {
            for (int64_t i = 0; i < x.count; i += kStep) store_first(d, load_as(d, from + i, x.count - i), room + i, x.count - i);
        } else {
            for (int64_t i = 0; i < x.count; ++i) room[i] = to_compute<float>(from[i * x.stride]);
        }
    });
    if (rotated != 0) rotate(room, x.count, rotated);
    return room;
}

// Of numbers of another sign: 0.
template <Sign kSign>
HWY_INLINE hn::Vec<Ints> magnitude_bits(const float *x, int64_t count) {
    const Ints di;
    const auto bits = hn::BitCast(di, load_first(Floats(), x, count));
    if constexpr (kSign == Sign::kPlus) return hn::Max(bits, hn::Zero(di));
    const auto magnitude = hn::And(bits, hn::Set(di, 0x7fffffff));
    if constexpr (kSign == Sign::kMinus) return hn::IfThenElseZero(hn::Lt(bits, hn::Zero(di)), magnitude);
    return magnitude;
}

template <Sign kSign>
HWY_INLINE void maximum_of(const float *x, int64_t count, int64_t group, int32_t *maxima) {
    const Ints di;
    if (group == 1) {
        for (int64_t i = 0; i < count; i += kStep) {
            store_first(di, hn::Max(load_first(di, maxima + i, count - i), magnitude_bits<kSign>(x + i, count - i)), maxima + i, count - i);
        }
        return;
    }
    for (int64_t first = 0; first < count; first += group, ++maxima) {
        const int64_t end = least(count, first + group);
        auto most = hn::Zero(di);
        for (int64_t i = first; i < end; i += kStep) most = hn::Max(most, magnitude_bits<kSign>(x + i, end - i));
        HWY_ALIGN int32_t lanes[static_cast<size_t>(kStep)];
        hn::Store(most, di, lanes);
        for (int64_t i = 0; i < kStep; ++i) *maxima = lanes[i] > *maxima ? lanes[i] : *maxima;
    }
}

void maximum(const float *x, int64_t count, int64_t group, Sign sign, int32_t *maxima) {
    if (sign == Sign::kPlus) return maximum_of<Sign::kPlus>(x, count, group, maxima);
    if (sign == Sign::kMinus) return maximum_of<Sign::kMinus>(x, count, group, maxima);
    maximum_of<Sign::kEither>(x, count, group, maxima);
}

void narrow(const float *x, int64_t count, int64_t group, const float *scales, const float *zeros, const Strip &q) {
    const bool four_bits = is_four_bits(q.dtype);
    uint8_t room[kQuantizePiece];
    uint8_t *const q_bytes = static_cast<uint8_t *>(q.data), *const to = q.stride == 1 && !four_bits ? q_bytes : room;
    with_scaled_storage(q.dtype, [&](auto s) { narrow_as<decltype(s)>(x, count, group, scales, zeros, to); });
    if (to == q_bytes) return;
    if (four_bits) {  // the last axis, whose neighbours share bytes
        for (int64_t i = 0; i < count / 2; ++i) q_bytes[i] = static_cast<uint8_t>((room[2 * i] & 15) | room[2 * i + 1] << 4);
        return;
    }
    for (int64_t i = 0; i < count; ++i) q_bytes[i * q.stride] = room[i];
}

template <class S>
void widen_as(const S *q, int64_t count, int64_t group, const float *scales, const float *zeros, float *room) {
    const Floats d;
    if (group == 1) {
        for (int64_t i = 0; i < count; i += kStep) {
            const auto scale = load_first(d, scales + i, count - i);
            const auto zero = zeros != nullptr ? load_first(d, zeros + i, count - i) : hn::Zero(d);
            store_first(d, hn::Mul(scale, hn::Sub(load_as(d, q + i, count - i), zero)), room + i, count - i);
        }
        return;
    }
    for (int64_t first = 0, g = 0; first < count; first += group, ++g) {
        const int64_t end = least(count, first + group);
        const auto scale = hn::Set(d, scales[g]), zero = hn::Set(d, zeros != nullptr ? zeros[g] : 0.0f);
        for (int64_t i = first; i < end; i += kStep) {
            store_first(d, hn::Mul(scale, hn::Sub(load_as(d, q + i, end - i), zero)), room + i, end - i);
        }
    }
}

// A byte for each number of 4 bits, signed as int8.
void spread_four_bits(const Strip &q, uint8_t *numbers) {
    const uint8_t *const pairs = static_cast<const uint8_t *>(q.data);
    const int flip = q.dtype == ATTILE_I4 ? 8 : 0;
    for (int64_t i = 0; i < q.count / 2; ++i) {
        numbers[2 * i] = static_cast<uint8_t>(((pairs[i] & 15) ^ flip) - flip);
        numbers[2 * i + 1] = static_cast<uint8_t>((pairs[i] >> 4 ^ flip) - flip);
    }
}

void store_piece(const float *from, const Strip &x) {
    const Floats d;
    with_storage<float>(x.dtype, [&](auto s) HWY_ATTR {
        using S = decltype(s);
        S *const to = static_cast<S *>(x.data);
        if (x.stride == 1) {
            for (int64_t i = 0; i < x.count; i += kStep) store_as(d, load_first(d, from + i, x.count - i), to + i, x.count - i);
        } else {
            for (int64_t i = 0; i < x.count; ++i) to[i * x.stride] = to_storage<S>(from[i]);
        }
    });
}

void widen_piece(const Strip &q, int64_t group, const float *scales, const float *zeros, int64_t rotated, float *room, const Strip &x) {
    uint8_t numbers[kQuantizePiece];
    const uint8_t *from = static_cast<const uint8_t *>(q.data);
    if (is_four_bits(q.dtype)) {
        spread_four_bits(q, numbers);
        from = numbers;
    } else if (q.stride != 1) {
        for (int64_t i = 0; i < q.count; ++i) numbers[i] = from[i * q.stride];
        from = numbers;
    }
    with_narrow_storage(is_four_bits(q.dtype) ? ATTILE_I8 : q.dtype, [&](auto s) {
        using S = decltype(s);
        widen_as<S>(reinterpret_cast<const S *>(from), q.count, group, scales, zeros, room);
    });
    if (rotated != 0) rotate(room, q.count, rotated);
    store_piece(room, x);
}

template <class T>
const QuantizeKernels<T> &kernels() {
    static constexpr QuantizeKernels<T> kTable = {&load_piece, &maximum, &narrow, &store_piece, &widen_piece};
    return kTable;
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
