// SPDX-License-Identifier: Apache-2.0
// Numbers of 8 and 4 bits from float32: what quantisation stores, and products and attention whose results are of 8 bits.
#pragma once

#include <attile/attile_backend.h>

#include <cmath>
#include <cstdint>

#include "reference_element.h"

namespace attile::reference {

// Of u4 from 0 up.
inline float largest_number(std::int32_t dtype) {
    switch (dtype) {
        case ATTILE_I8:
            return 127;
        case ATTILE_I4:
            return 7;
        case ATTILE_U4:
            return 15;
        default:
            return dtype == ATTILE_F8_E4M3 ? 448.0f : 57344.0f;
    }
}

// Of two ways in the middle the even one, whatever the rounding mode.
inline int round_to_integer(double x) {
    const double low = std::floor(x), rest = x - low;
    const int below = static_cast<int>(low);
    return rest > 0.5 || (rest == 0.5 && below % 2 != 0) ? below + 1 : below;
}

inline void store_quantised(const attile_operand &q, float x, float scale, float zero, std::int64_t to) {
    const float most = largest_number(q.dtype), least = q.dtype == ATTILE_U4 ? 0 : -most;
    const float ratio = q.dtype == ATTILE_U4 ? x / scale + zero : x / scale;
    const double number = scale == 0 ? 0.0 : static_cast<double>(ratio > most ? most : ratio < least ? least : ratio);
    const bool nan = std::isnan(number);
    switch (q.dtype) {
        case ATTILE_I8:
        case ATTILE_I4:
        case ATTILE_U4:
            store_integer(q, nan ? 0 : round_to_integer(number), to);
            break;
        case ATTILE_F8_E4M3:
            static_cast<std::uint8_t *>(q.data)[to] = nan ? std::uint8_t{0x7f} : encode_8<3>(number);
            break;
        default:
            static_cast<std::uint8_t *>(q.data)[to] = nan ? std::uint8_t{0x7e} : encode_8<2>(number);
            break;
    }
}

/// A result, of 8 bits over its scale.
inline void store_result(const attile_operand &y, double value, const attile_operand &scale, std::int64_t scale_at, std::int64_t i0,
                         std::int64_t i1, std::int64_t i2, std::int64_t i3) {
    if ((y.dtype & 0xff) != 8) return store(y, value, i0, i1, i2, i3);
    const float divisor = present(scale) ? static_cast<const float *>(scale.data)[scale_at] : 1.0f;
    store_quantised(y, static_cast<float>(value), divisor, 0, offset_of(y, i0, i1, i2, i3));
}

}  // namespace attile::reference
