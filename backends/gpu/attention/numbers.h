// SPDX-License-Identifier: Apache-2.0
// Elements and quads of operands, in whatever type they are stored.
#pragma once

#include <type_traits>

#include "attention/score.h"
#include "attention/stream.h"

namespace attile::gpu {

ATTILE_LANE_FN void store_number(const AttentionOperand &x, int64_t at, float value) {
    if (x.storage == AttentionStorage::kF32)
        static_cast<float *>(const_cast<void *>(x.data))[at] = value;
    else if (x.storage == AttentionStorage::kF16)
        static_cast<F16 *>(const_cast<void *>(x.data))[at] = from_compute<F16>(value);
    else
        static_cast<BF16 *>(const_cast<void *>(x.data))[at] = from_compute<BF16>(value);
}

// Four columns of a row, scaled.
ATTILE_LANE_FN void store_quad(const AttentionOperand &x, int64_t row, int col, int cols, const Quad &quad, float scale) {
    const auto store = [&](auto *data) {
        using T = std::remove_pointer_t<decltype(data)>;
        Vec<T, 4> numbers;
#pragma unroll
        for (int e = 0; e < 4; ++e) numbers[e] = from_compute<T>(quad[e] * scale);
        store_vec(data + row + col, numbers);
    };
    if (x.vector && col + 4 <= cols) {
        void *const data = const_cast<void *>(x.data);
        if (x.storage == AttentionStorage::kF32)
            store(static_cast<float *>(data));
        else if (x.storage == AttentionStorage::kF16)
            store(static_cast<F16 *>(data));
        else
            store(static_cast<BF16 *>(data));
        return;
    }
#pragma unroll
    for (int e = 0; e < 4; ++e)
        if (col + e < cols) store_number(x, row + (col + e) * x.stride[3], quad[e] * scale);
}

// An element in the type that is computed in.
template <class T>
ATTILE_LANE_FN T load_as(const AttentionOperand &x, int64_t at) {
    return x.storage == AttentionStorage::kF64 ? static_cast<T>(static_cast<const double *>(x.data)[at])
                                               : static_cast<T>(load_number(x, at));
}
template <class T>
ATTILE_LANE_FN void store_as(const AttentionOperand &x, int64_t at, T value) {
    if (x.storage == AttentionStorage::kF64)
        static_cast<double *>(const_cast<void *>(x.data))[at] = static_cast<double>(value);
    else
        store_number(x, at, static_cast<float>(value));
}

}  // namespace attile::gpu
