// SPDX-License-Identifier: Apache-2.0
// Keys and values of 8 bits, each times its scale.
#pragma once

#include "attention/numbers.h"
#include "eight_bits.h"

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
    if (!has_eight_bits(x.storage)) return load_as<T>(x, at);
    float number = 0;
    with_eight_bits(x.storage, [&](auto type) { number = to_compute(static_cast<const decltype(type) *>(x.data)[at]); });
    return static_cast<T>(number * load_scale(scales, scale_at, col));
}

// Four numbers from column `col` on, those at `cols` and beyond as zeros.
ATTILE_LANE_FN Quad load_quad_scaled(const AttentionOperand &x, const AttentionScales &scales, int64_t row_at, int64_t scale_at, int col,
                                     int cols) {
    if (!has_eight_bits(x.storage)) return load_quad_any(x, row_at, col, cols);
    Quad quad = {};
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
