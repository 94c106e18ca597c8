// SPDX-License-Identifier: Apache-2.0
// What rows of x have of their own: the angles that their pairs are rotated by, and where they go in a cache. Lengths, positions and page
// numbers are data: whatever they are, nothing else is read or written.
#pragma once

#include "quantize/simt/arguments.h"
#include "rows/rows.h"
#include "vec.h"

namespace attile::gpu::simt {

// A row's indices, or a block's.
struct RowIndex {
    int64_t at[3];
};

ATTILE_LANE_FN int64_t key_of(const RowPlaces &places, const RowIndex &row) {
    if (places.key_lengths == nullptr) return row.at[2];
    return places.key_lengths[row.at[0] * places.length_stride] - places.rows + row.at[2];
}

// Row of x to row of q, scale and zero. False: it has no place there.
ATTILE_LANE_FN bool find_place(const RowPlaces &places, RowIndex &row) {
    if (!places.appends) return true;
    const int64_t key = key_of(places, row);
    if (key < 0 || key >= places.keys) return false;
    row.at[2] = key;
    if (places.block_table == nullptr) return true;
    const Division in_page = divide(key, places.page_size);
    const int64_t page = places.block_table[row.at[0] * places.table_stride[0] + in_page.quotient * places.table_stride[1]];
    if (page < 0 || page >= places.pages) return false;
    row.at[0] = page;
    row.at[2] = in_page.remainder;
    return true;
}

ATTILE_LANE_FN int64_t angle_row(const RowPlaces &places, const RowIndex &row) {
    int64_t position = 0;
    if (places.positions == nullptr) {
        position = key_of(places, row);
    } else {
        const int64_t at = row.at[0] * places.position_stride[0] + row.at[2] * places.position_stride[1];
        position = places.are_positions_long ? static_cast<const int64_t *>(places.positions)[at]
                                             : static_cast<const int32_t *>(places.positions)[at];
    }
    const int64_t last = places.angle_rows - 1;
    return position < 0 ? 0 : position > last ? last : position;
}

// Rotates the pairs of which a vector of a row has a number: `count` of them from `column` on, which lie at `from`. The other numbers of
// pairs are its own or are read again. Each product and each sum is rounded.
template <class T, int kVec>
ATTILE_LANE_FN void embed(const RowPlaces &places, const RowIndex &row, int64_t column, int32_t count, const T *from, int64_t stride,
                          bool is_vector, float (&x)[kVec]) {
    const int64_t angles = angle_row(places, row), pairs = places.pairs;
    const float *const cosines = places.cosines + angles * places.cosine_stride[0];
    const float *const sines = places.sines + angles * places.sine_stride[0];
    float other[kVec];
    if (places.is_interleaved) {
#pragma unroll
        for (int i = 0; i < kVec; ++i) other[i] = x[i ^ 1];
    } else if (is_vector && count == kVec && pairs % kVec == 0) {
        const Vec<T, kVec> all = load_vec<kVec>(column < pairs ? from + pairs : from - pairs);
#pragma unroll
        for (int i = 0; i < kVec; ++i) other[i] = to_compute(all[i]);
    } else {
#pragma unroll
        for (int i = 0; i < kVec; ++i) {
            other[i] = 0;
            if (i < count && column + i < 2 * pairs) other[i] = to_compute(from[(column + i < pairs ? i + pairs : i - pairs) * stride]);
        }
    }
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
        const int64_t at = column + i;
        if (i >= count || at >= 2 * pairs) continue;
        const bool is_first = places.is_interleaved ? i % 2 == 0 : at < pairs;
        const int64_t pair = places.is_interleaved ? at / 2 : is_first ? at : at - pairs;
        const float along = rounded_product(x[i], cosines[pair * places.cosine_stride[1]]);
        const float across = rounded_product(other[i], sines[pair * places.sine_stride[1]]);
        x[i] = is_first ? along - across : along + across;
    }
}

}  // namespace attile::gpu::simt
