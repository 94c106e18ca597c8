// SPDX-License-Identifier: Apache-2.0
// Vectors of x and of q: where they are, how they are loaded, rotated, scaled, rounded and stored. Every step has the bits that the page on
// numerics defines: no sum is fused with a product, and quotients are exact.
#pragma once

#include "quantize/simt/row_places.cuh"
#include "rows/rows.h"
#include "vec.h"

namespace attile::gpu::simt {

ATTILE_LANE_FN RowIndex row_index(const int64_t (&extent)[4], int64_t row) {
    if (extent[0] == 1 && extent[1] == 1) return {{0, 0, row}};
    const Division last = divide(row, extent[2]), middle = divide(last.quotient, extent[1]);
    return {{middle.quotient, middle.remainder, last.remainder}};
}

// A vector of a row: its first number, and how many there are. kPlain: of rows of one axis, all or none, aligned in x and q, with one
// scale.
template <bool kPlain>
struct Spot {
    RowIndex row;
    int64_t column;
    int32_t count;

    ATTILE_LANE_FN bool is_whole(bool is_vector, int32_t most) const { return kPlain || (is_vector && count == most); }
};
template <bool kPlain>
ATTILE_LANE_FN int64_t offset_of(const int64_t (&stride)[4], const Spot<kPlain> &spot) {
    const int64_t(&row)[3] = spot.row.at;
    return row[0] * stride[0] + row[1] * stride[1] + row[2] * stride[2] + (kPlain ? spot.column : spot.column * stride[3]);
}
template <int kVec>
ATTILE_LANE_FN int32_t count_at(int64_t column, int64_t end) {
    const int64_t rest = end - column;
    return static_cast<int32_t>(rest < 0 ? 0 : rest < kVec ? rest : kVec);
}

// The element of a tensor of scales, zero points or maxima that belongs to a number.
ATTILE_LANE_FN int64_t block_of(const QuantizeArguments &a, const int64_t (&stride)[4], const RowIndex &row, int64_t column) {
    return (row.at[0] >> a.shift[0]) * stride[0] + (row.at[1] >> a.shift[1]) * stride[1] + (row.at[2] >> a.shift[2]) * stride[2] +
           (column >> a.shift[3]) * stride[3];
}
ATTILE_LANE_FN bool is_first(int64_t index, int32_t shift) { return index >> shift << shift == index; }

// kPlaced: rows may have places, and pairs be rotated.
template <class T, bool kPlaced = true, int kVec, bool kPlain>
ATTILE_LANE_FN void load_numbers(const QuantizeArguments &a, const Spot<kPlain> &spot, float (&x)[kVec]) {
    const T *const from = static_cast<const T *>(a.x) + offset_of(a.x_stride, spot);
    if (kPlain ? spot.count != 0 : a.x_vector && spot.count == kVec) {
        const Vec<T, kVec> all = load_vec<kVec>(from);
#pragma unroll
        for (int i = 0; i < kVec; ++i) x[i] = to_compute(all[i]);
    } else {
#pragma unroll
        for (int i = 0; i < kVec; ++i) x[i] = !kPlain && i < spot.count ? to_compute(from[i * a.x_stride[3]]) : 0.0f;
    }
    if (kPlaced && !kPlain && spot.column < 2 * a.places.pairs)
        embed(a.places, spot.row, spot.column, spot.count, from, a.x_stride[3], a.x_vector, x);
}

// Sums and differences of neighbours, then of those two apart, and so on. The vectors are those of neighbouring lanes, then the
// next of each lane, and so on; what is rotated together begins at a multiple of its length.
template <int kVectors, int kVec>
ATTILE_LANE_FN void rotate(const QuantizeArguments &a, float (&x)[kVectors][kVec]) {
    const auto combine = [](float &low, float &high) {
        const float sum = low + high;
        high = low - high;
        low = sum;
    };
#pragma unroll
    for (int apart = 1; apart < kVec; apart *= 2) {
        if (apart < a.hadamard) {
#pragma unroll
            for (int i = 0; i < kVectors * kVec; ++i) {
                if ((i & apart) == 0) combine(x[i / kVec][i % kVec], x[i / kVec][i % kVec + apart]);
            }
        }
    }
#pragma unroll
    for (int apart = 1; apart < kLanes; apart *= 2) {
        if (apart * kVec < a.hadamard) {
            const bool is_high = (lane_index() & apart) != 0;
#pragma unroll
            for (int i = 0; i < kVectors * kVec; ++i) {
                float &mine = x[i / kVec][i % kVec];
                const float other = shuffle_xor(mine, apart);
                mine = is_high ? other - mine : mine + other;
            }
        }
    }
#pragma unroll
    for (int apart = 1; apart < kVectors; apart *= 2) {
        if (apart * kLanes * kVec < a.hadamard) {
#pragma unroll
            for (int i = 0; i < kVectors * kVec; ++i) {
                if ((i / kVec & apart) == 0) combine(x[i / kVec][i % kVec], x[i / kVec + apart][i % kVec]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < kVectors * kVec; ++i) x[i / kVec][i % kVec] = rounded_product(x[i / kVec][i % kVec], a.rotation);
}

// What a block's scale is made of, as bits of floats, which are in order from 0 up; infinity and NaN are beyond all others.
struct Extremes {
    int32_t high, low;

    ATTILE_LANE_FN void add(const Extremes &other) {
        high = max(high, other.high);
        low = max(low, other.low);
    }
    ATTILE_LANE_FN void add(bool has_two_ends, float x) {
        const uint32_t bits = __float_as_uint(x), sign = 0x80000000u;
        high = max(high, static_cast<int32_t>(has_two_ends ? bits : bits & ~sign));
        if (has_two_ends) low = max(low, static_cast<int32_t>(bits ^ sign));
    }
};

struct BlockScale {
    float scale, zero;
};
ATTILE_LANE_FN BlockScale scale_of(const QuantizeArguments &a, const Extremes &found) {
    constexpr int32_t kInfinity = 0x7f800000;
    if (found.high >= kInfinity || found.low >= kInfinity) return {__uint_as_float(0x7fc00000u), 0.0f};
    const float high = __uint_as_float(static_cast<uint32_t>(found.high)), low = __uint_as_float(static_cast<uint32_t>(found.low));
    const float scale = rounded_quotient(high, a.most);
    if (!a.has_two_ends) return {scale, 0.0f};
    const float both = scale + rounded_quotient(low, a.most);
    return {both, both != 0 ? rintf(rounded_quotient(low, both)) : 0.0f};
}
ATTILE_LANE_FN void write_scale(const QuantizeArguments &a, const RowIndex &row, int64_t column, const BlockScale &made) {
    a.scale[block_of(a, a.scale_stride, row, column)] = made.scale;
    if (a.zero != nullptr) a.zero[block_of(a, a.zero_stride, row, column)] = made.zero;
}
ATTILE_LANE_FN BlockScale given_scale(const QuantizeArguments &a, const RowIndex &row, int64_t column) {
    return {a.scale != nullptr ? a.scale[block_of(a, a.scale_stride, row, column)] : 1.0f,
            a.zero != nullptr ? a.zero[block_of(a, a.zero_stride, row, column)] : 0.0f};
}
ATTILE_LANE_FN Extremes found_extremes(const QuantizeArguments &a, int64_t block) {
    const int64_t all = a.blocks[0] * a.blocks[1] * a.blocks[2] * a.blocks[3];
    return {a.maxima[block], a.has_two_ends ? a.maxima[all + block] : 0};
}
ATTILE_LANE_FN void join_extremes(const QuantizeArguments &a, int64_t block, const Extremes &found) {
    const int64_t all = a.blocks[0] * a.blocks[1] * a.blocks[2] * a.blocks[3];
    atomicMax(a.maxima + block, found.high);
    if (a.has_two_ends) atomicMax(a.maxima + all + block, found.low);
}

// x / scale, exactly. One reciprocal and two corrections by the remainder, which a fused multiply-add has exactly: the first quotient is
// within two units in the last place, the second within one, and the third is then rounded as the quotient is (Markstein). Where the
// remainder would be subnormal the quotient is below 2^-40, and rounds as if it were exact to a number of 8 bits, or into a sum with a zero
// point; but its sign is to be taken from elsewhere.
class Quotient {
  public:
    ATTILE_LANE_FN explicit Quotient(float by)
        : by_(by), is_plain_(fabsf(by) > 0x1p-60f && fabsf(by) < 0x1p60f), reciprocal_(is_plain_ ? rounded_quotient(1.0f, by) : 0.0f) {}
    ATTILE_LANE_FN bool is_plain() const { return is_plain_; }
    // Of x of less than 2^20 scales, where the scale is_plain().
    ATTILE_LANE_FN float of_near(float x) const {
        const float first = rounded_product(x, reciprocal_);
        const float second = __builtin_fmaf(__builtin_fmaf(-first, by_, x), reciprocal_, first);
        return __builtin_fmaf(__builtin_fmaf(-second, by_, x), reciprocal_, second);
    }
    ATTILE_LANE_FN float of(float x) const {
        if (!is_plain_) return rounded_quotient(x, by_);
        const float first = rounded_product(x, reciprocal_), exact = of_near(x);
        return fabsf(first) < 0x1p20f ? exact : first;  // Far beyond every number, infinite or NaN: as it is.
    }

  private:
    float by_;
    bool is_plain_;
    float reciprocal_;
};

// Numbers of 8 or 4 bits, in the lower bits of a word each. kWithin: no ratio is NaN, or rounds beyond the largest number.
template <bool kWithin, int kVec>
ATTILE_LANE_FN void round_numbers(const QuantizeArguments &a, const BlockScale &block, const float (&x)[kVec], const float (&ratio)[kVec],
                                  uint32_t (&numbers)[kVec]) {
    if (a.kind >= NumberKind::kE4m3) {
#pragma unroll
        for (int i = 0; i < kVec; ++i) {
            const uint32_t sign = (__float_as_uint(x[i]) ^ __float_as_uint(block.scale)) >> 31 << 7;
            const float magnitude = kWithin ? fabsf(ratio[i]) : fminf(fabsf(ratio[i]), a.most);
            const uint32_t number = sign | nearest_magnitude(a.format, magnitude);
            numbers[i] = !kWithin && ratio[i] != ratio[i] ? a.format.nan : number;
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
        const float number = a.kind == NumberKind::kU4 ? ratio[i] + block.zero : ratio[i];
        const float within = kWithin && a.kind != NumberKind::kU4 ? number : fmaxf(fminf(number, a.most), a.least);
        numbers[i] = !kWithin && number != number ? 0 : nearest_integer(within);
    }
}

template <int kVec>
ATTILE_LANE_FN void make_numbers(const QuantizeArguments &a, const BlockScale &block, const float (&x)[kVec], uint32_t (&numbers)[kVec]) {
    float ratio[kVec];
    const Quotient quotient(block.scale);
    if (quotient.is_plain() && (a.from == ScaleFrom::kMaxima || a.from == ScaleFrom::kLanes)) {
#pragma unroll
        for (int i = 0; i < kVec; ++i) ratio[i] = quotient.of_near(x[i]);
        round_numbers<true>(a, block, x, ratio, numbers);
        return;
    }
#pragma unroll
    for (int i = 0; i < kVec; ++i) ratio[i] = quotient.of(x[i]);
    round_numbers<false>(a, block, x, ratio, numbers);
#pragma unroll
    for (int i = 0; i < kVec; ++i) numbers[i] = block.scale == 0 ? 0 : numbers[i];
}

ATTILE_LANE_FN int bits_of(NumberKind kind) { return kind == NumberKind::kI4 || kind == NumberKind::kU4 ? 4 : 8; }

template <int kVec, bool kPlain>
ATTILE_LANE_FN void store_numbers(const QuantizeArguments &a, const Spot<kPlain> &spot, const uint32_t (&numbers)[kVec]) {
    const int64_t to = offset_of(a.q_stride, spot);
    uint8_t *const q = static_cast<uint8_t *>(a.q);
    if (bits_of(a.kind) == 4) {
        uint32_t word = 0;
#pragma unroll
        for (int i = 0; i < kVec; ++i) word |= (numbers[i] & 15u) << 4 * i;
        uint8_t *const pairs = q + (to >> 1);
        if (spot.is_whole(a.q_vector, kVec)) {
            if constexpr (kVec == 8)
                *reinterpret_cast<uint32_t *>(pairs) = word;
            else
                *reinterpret_cast<uint16_t *>(pairs) = static_cast<uint16_t>(word);
            return;
        }
#pragma unroll
        for (int i = 0; i < kVec; i += 2) {
            if (i < spot.count) pairs[i / 2] = static_cast<uint8_t>(word >> 4 * i);
        }
        return;
    }
    if (spot.is_whole(a.q_vector, kVec)) {
        Vec<uint32_t, kVec / 4> words;
#pragma unroll
        for (int w = 0; w < kVec / 4; ++w) {
            words[w] = 0;
#pragma unroll
            for (int i = 0; i < 4; ++i) words[w] |= (numbers[4 * w + i] & 0xffu) << 8 * i;
        }
        store_vec(reinterpret_cast<uint32_t *>(q + to), words);
        return;
    }
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
        if (i < spot.count) q[to + i * a.q_stride[3]] = static_cast<uint8_t>(numbers[i]);
    }
}

template <class Q, int kVec, bool kPlain>
ATTILE_LANE_FN void store_floats(const QuantizeArguments &a, const Spot<kPlain> &spot, const float (&x)[kVec]) {
    constexpr int kPart = kVec * static_cast<int>(sizeof(Q)) > 16 ? 16 / static_cast<int>(sizeof(Q)) : kVec;
    Q *const to = static_cast<Q *>(a.q) + offset_of(a.q_stride, spot);
    if (spot.is_whole(a.q_vector, kVec)) {
#pragma unroll
        for (int part = 0; part < kVec; part += kPart) {
            Vec<Q, kPart> all;
#pragma unroll
            for (int i = 0; i < kPart; ++i) all[i] = from_compute<Q>(x[part + i]);
            store_vec(to + part, all);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
        if (i < spot.count) to[i * a.q_stride[3]] = from_compute<Q>(x[i]);
    }
}

// Numbers that have no scale; false: they have one.
template <int kVec, bool kPlain>
ATTILE_LANE_FN bool store_if_floats(const QuantizeArguments &a, const Spot<kPlain> &spot, const float (&x)[kVec]) {
    if (kPlain || a.kind < NumberKind::kF32) return false;
    if (a.kind == NumberKind::kF32)
        store_floats<float>(a, spot, x);
    else if (a.kind == NumberKind::kF16)
        store_floats<F16>(a, spot, x);
    else
        store_floats<BF16>(a, spot, x);
    return true;
}

// Makes and stores a vector's numbers where the scale is known, or of each number.
template <int kVec, bool kPlain>
ATTILE_LANE_FN void convert(const QuantizeArguments &a, const Spot<kPlain> &spot, const BlockScale &block, const float (&x)[kVec]) {
    if (store_if_floats(a, spot, x)) return;
    uint32_t numbers[kVec];
    make_numbers(a, block, x, numbers);
    store_numbers(a, spot, numbers);
}
template <int kVec, bool kPlain>
ATTILE_LANE_FN void convert(const QuantizeArguments &a, const Spot<kPlain> &spot, const BlockScale (&blocks)[kVec],
                            const float (&x)[kVec]) {
    uint32_t numbers[kVec];
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
        const float one[1] = {x[i]};
        uint32_t number[1];
        make_numbers(a, blocks[i], one, number);
        numbers[i] = number[0];
    }
    store_numbers(a, spot, numbers);
}

// The numbers of q as floats.
template <int kVec, bool kPlain>
ATTILE_LANE_FN void fetch_numbers(const QuantizeArguments &a, const Spot<kPlain> &spot, float (&x)[kVec]) {
    const int64_t from = offset_of(a.q_stride, spot);
    const uint8_t *const q = static_cast<const uint8_t *>(a.q);
    uint32_t numbers[kVec];
    if (bits_of(a.kind) == 4) {
        const uint8_t *const pairs = q + (from >> 1);
        uint32_t word = 0;
        if (spot.is_whole(a.q_vector, kVec)) {
            if constexpr (kVec == 8)
                word = *reinterpret_cast<const uint32_t *>(pairs);
            else
                word = *reinterpret_cast<const uint16_t *>(pairs);
        } else {
#pragma unroll
            for (int i = 0; i < kVec; i += 2) word |= i < spot.count ? static_cast<uint32_t>(pairs[i / 2]) << 4 * i : 0;
        }
#pragma unroll
        for (int i = 0; i < kVec; ++i) numbers[i] = word >> 4 * i;
    } else if (spot.is_whole(a.q_vector, kVec)) {
        const auto words = load_vec<kVec / 4>(reinterpret_cast<const uint32_t *>(q + from));
#pragma unroll
        for (int i = 0; i < kVec; ++i) numbers[i] = words[i / 4] >> 8 * (i % 4);
    } else {
#pragma unroll
        for (int i = 0; i < kVec; ++i) numbers[i] = i < spot.count ? q[from + i * a.q_stride[3]] : 0;
    }
    switch (a.kind) {
        case NumberKind::kI8:
#pragma unroll
            for (int i = 0; i < kVec; ++i) x[i] = to_compute(I8{static_cast<int8_t>(numbers[i])});
            break;
        case NumberKind::kI4:
#pragma unroll
            for (int i = 0; i < kVec; ++i) x[i] = from_i4(numbers[i]);
            break;
        case NumberKind::kU4:
#pragma unroll
            for (int i = 0; i < kVec; ++i) x[i] = from_u4(numbers[i]);
            break;
        case NumberKind::kE4m3:
#pragma unroll
            for (int i = 0; i < kVec; ++i) x[i] = to_compute(E4M3{static_cast<uint8_t>(numbers[i])});
            break;
        default:
#pragma unroll
            for (int i = 0; i < kVec; ++i) x[i] = to_compute(E5M2{static_cast<uint8_t>(numbers[i])});
            break;
    }
}

template <class T, int kVec, bool kPlain>
ATTILE_LANE_FN void store_x(const QuantizeArguments &a, const Spot<kPlain> &spot, const float (&x)[kVec]) {
    T *const to = static_cast<T *>(a.x) + offset_of(a.x_stride, spot);
    if (spot.is_whole(a.x_vector, kVec)) {
        Vec<T, kVec> all;
#pragma unroll
        for (int i = 0; i < kVec; ++i) all[i] = from_compute<T>(x[i]);
        store_vec(to, all);
        return;
    }
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
        if (i < spot.count) to[i * a.x_stride[3]] = from_compute<T>(x[i]);
    }
}

}  // namespace attile::gpu::simt
