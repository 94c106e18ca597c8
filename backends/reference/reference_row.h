// SPDX-License-Identifier: Apache-2.0
// Rows of operands, which are the elements along the last axis, as doubles. The type is looked at once for a piece of a row, and a sum is
// made of four, so that no product waits for the sum before it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "reference_element.h"

namespace attile::reference {

struct Row {
    const void *data;
    std::int32_t dtype;
    std::int64_t start, stride;    // in elements
    const float *scale = nullptr;  // of numbers of 8 bits, the next `group` of them one step further
    std::int64_t scale_stride = 0, group = 1;
};

inline Row row_of(const attile_operand &x, std::int64_t i0, std::int64_t i1, std::int64_t i2) {
    return {x.data, x.dtype, offset_of(x, i0, i1, i2), x.stride[3]};
}

inline Row scaled_row_of(const attile_operand &x, const attile_operand &scale, std::int64_t group, std::int64_t i0, std::int64_t i1,
                         std::int64_t i2) {
    Row row = row_of(x, i0, i1, i2);
    if (!present(scale)) return row;
    row.scale = static_cast<const float *>(scale.data) + offset_of(scale, i0, i1, i2);
    row.scale_stride = scale.stride[3];
    row.group = group;
    return row;
}

inline constexpr std::int64_t kPiece = 64;

/// `count` elements from `first` on, at most kPiece: where they are if they are doubles side by side, else in `space`.
inline const double *piece_of(const Row &row, std::int64_t first, std::int64_t count, double *space) {
    const std::int64_t start = row.start + first * row.stride;
    const auto made = [&](auto number) -> const double * {
        for (std::int64_t i = 0; i < count; ++i) space[i] = number(start + i * row.stride);
        for (std::int64_t i = 0; row.scale != nullptr && i < count; ++i)
            space[i] *= static_cast<double>(row.scale[(first + i) / row.group * row.scale_stride]);
        return space;
    };
    const auto converted = [&](const auto *data, auto decode) { return made([&](std::int64_t at) { return decode(data[at]); }); };
    switch (row.dtype) {
        case ATTILE_F64:
            if (row.stride == 1) return static_cast<const double *>(row.data) + start;
            return converted(static_cast<const double *>(row.data), [](double x) { return x; });
        case ATTILE_F32:
            return converted(static_cast<const float *>(row.data), [](float x) { return static_cast<double>(x); });
        case ATTILE_F16:
            return converted(static_cast<const std::uint16_t *>(row.data), decode_f16);
        case ATTILE_I8:
            return converted(static_cast<const std::int8_t *>(row.data), [](std::int8_t x) { return static_cast<double>(x); });
        case ATTILE_I4:
        case ATTILE_U4: {
            const int sign = row.dtype == ATTILE_I4 ? 8 : 0;
            return made([&](std::int64_t at) { return (four_bits(static_cast<const std::uint8_t *>(row.data), at) ^ sign) - sign; });
        }
        case ATTILE_F8_E4M3:
            return converted(static_cast<const std::uint8_t *>(row.data), decode_e4m3);
        case ATTILE_F8_E5M2:
            return converted(static_cast<const std::uint8_t *>(row.data), decode_e5m2);
        default:
            return converted(static_cast<const std::uint16_t *>(row.data), decode_bf16);
    }
}

/// sum_d x_d y_d
inline double dot(const Row &x, const Row &y, std::int64_t n) {
    double sums[4] = {0, 0, 0, 0}, x_space[kPiece], y_space[kPiece];
    for (std::int64_t first = 0; first < n; first += kPiece) {
        const std::int64_t count = std::min(kPiece, n - first);
        const double *a = piece_of(x, first, count, x_space), *b = piece_of(y, first, count, y_space);
        std::int64_t i = 0;
        for (; i + 4 <= count; i += 4)
            for (int lane = 0; lane < 4; ++lane) sums[lane] += a[i + lane] * b[i + lane];
        for (; i < count; ++i) sums[0] += a[i] * b[i];
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// sum_d += factor x_d
inline void add_multiple(double *sum, double factor, const Row &x, std::int64_t n) {
    double space[kPiece];
    for (std::int64_t first = 0; first < n; first += kPiece) {
        const std::int64_t count = std::min(kPiece, n - first);
        const double *a = piece_of(x, first, count, space);
        for (std::int64_t i = 0; i < count; ++i) sum[first + i] += factor * a[i];
    }
}

}  // namespace attile::reference
