// SPDX-License-Identifier: Apache-2.0
// Rows of 8 or 4 bits, each number times its scale.
#pragma once

#include "attention/numbers.h"
#include "eight_bits.h"
#include "narrow.h"

namespace attile::gpu {

// body(a number of the type that has 8 bits)
template <class Body>
ATTILE_LANE_FN void with_eight_bits(AttentionStorage storage, const Body &body) {
    if (storage == AttentionStorage::kI8)
        body(I8{});
    else if (storage == AttentionStorage::kE4M3)
        body(E4M3{});
    else
        body(E5M2{});
}

// Numbers that share bytes, from number `at` on in the lowest bits: one, and kCount of them where `at` is a multiple of that.
ATTILE_LANE_FN uint32_t load_four_bits(const AttentionOperand &x, int64_t at) {
    return static_cast<uint32_t>(load_vec_const<1>(static_cast<const uint8_t *>(x.data) + (at >> 1))[0]) >> (at & 1) * 4;
}
template <int kCount>
ATTILE_LANE_FN uint32_t load_four_bits_run(const AttentionOperand &x, int64_t at) {
    using Run = std::conditional_t<kCount == 8, uint32_t, uint16_t>;
    static_assert(kCount == 4 || kCount == 8, "a word or half of one");
    return load_vec_const<1>(reinterpret_cast<const Run *>(static_cast<const uint8_t *>(x.data) + (at >> 1)))[0];
}
// The lowest of them.
ATTILE_LANE_FN float from_four_bits(AttentionStorage storage, uint32_t bits) {
    return storage == AttentionStorage::kI4 ? from_i4(bits) : from_u4(bits);
}

// Where the scales of a row begin: its place along the first three axes.
ATTILE_LANE_FN int64_t scales_at(const AttentionScales &x, int64_t outer, int64_t head, int64_t row) {
    return outer * x.stride[0] + head * x.stride[1] + row * x.stride[2];
}
ATTILE_LANE_FN float load_scale(const AttentionScales &x, int64_t at, int col) {
    return x.data ? load_vec_const<1>(x.data + at + quotient(static_cast<uint32_t>(col), x.group) * x.stride[3])[0] : 1.0f;
}

// The number in column `col` of a row of any storage.
template <class T>
ATTILE_LANE_FN T load_scaled(const AttentionOperand &x, const AttentionScales &scales, int64_t row_at, int64_t scale_at, int col) {
    const int64_t at = row_at + col * x.stride[3];
    if (!is_quantised(x.storage)) return load_as<T>(x, at);
    float number = 0;
    if (has_four_bits(x.storage))
        number = from_four_bits(x.storage, load_four_bits(x, at));
    else
        with_eight_bits(x.storage, [&](auto type) { number = to_compute(static_cast<const decltype(type) *>(x.data)[at]); });
    return static_cast<T>(number * load_scale(scales, scale_at, col));
}

// Four numbers from column `col` on, those at `cols` and beyond as zeros.
ATTILE_LANE_FN Quad load_quad_scaled(const AttentionOperand &x, const AttentionScales &scales, int64_t row_at, int64_t scale_at, int col,
                                     int cols) {
    if (!is_quantised(x.storage)) return load_quad_any(x, row_at, col, cols);
    Quad quad = {};
    if (has_four_bits(x.storage)) {
        const uint32_t run = x.vector && col < cols ? load_four_bits_run<4>(x, row_at + col) : 0;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            if (col + e >= cols) continue;
            const uint32_t bits = x.vector ? run >> 4 * e : load_four_bits(x, row_at + col + e);
            quad[e] = from_four_bits(x.storage, bits) * load_scale(scales, scale_at, col + e);
        }
        return quad;
    }
    with_eight_bits(x.storage, [&](auto type) {
        using T = decltype(type);
        const T *const from = static_cast<const T *>(x.data) + row_at;
        Vec<T, 4> stored = {};
        if (x.vector && col < cols)
            stored = load_vec_const<4>(from + col);
        else
#pragma unroll
            for (int e = 0; e < 4; ++e)
                if (col + e < cols) stored[e] = load_vec_const<1>(from + (col + e) * x.stride[3])[0];
#pragma unroll
        for (int e = 0; e < 4; ++e)
            if (col + e < cols) quad[e] = to_compute(stored[e]) * load_scale(scales, scale_at, col + e);
    });
    return quad;
}

}  // namespace attile::gpu
