// SPDX-License-Identifier: Apache-2.0
// What the kernels of quantisation are given. x and q are rows of the last axis, each cut into vectors: as many numbers as 16 bytes of x
// have.
#pragma once

#include <attile/attile.h>

#include "narrow.h"

namespace attile::gpu::simt {

inline constexpr int kQuantizeThreads = 256;
inline constexpr int kQuantizeTile = 512;  // Numbers that a lane group takes at a time: as many as are rotated together at most.
inline constexpr int kQuantizeHeld = 32;   // Numbers that a thread of quantize_blocks holds.

template <class T>
inline constexpr int kQuantizeVec = 16 / static_cast<int>(sizeof(T));

enum class NumberKind : int32_t { kI8, kI4, kU4, kE4m3, kE5m2, kF32, kF16, kBF16 };  // From kF32 on without scales.

// Where the scale of a block comes from.
enum class ScaleFrom : int32_t {
    kNone,    // All are 1.
    kTensor,  // Given.
    kMaxima,  // Of `maxima`, which an earlier launch has found. Whoever has a block's first number writes its scale.
    kLanes    // Of neighbouring lanes, who have a block: a part of a row.
};

// Of each row of x, by its batch entry and index: the angles it is rotated by, and where it goes in a cache. Rows that have neither need
// none of this.
struct RowPlaces {
    const float *cosines = nullptr, *sines = nullptr;
    const void *positions = nullptr;       // Null: the row's key.
    const int32_t *key_lengths = nullptr;  // Null: keys are counted from 0.
    const int32_t *block_table = nullptr;  // Null: no pages.
    int64_t cosine_stride[2] = {}, sine_stride[2] = {}, position_stride[2] = {}, length_stride = 0, table_stride[2] = {};
    int64_t angle_rows = 0, pairs = 0;  // Of cosines and sines. No pairs: nothing is rotated.
    int64_t rows = 0;                   // Of an entry of x.
    int64_t keys = 0;                   // Others are not written.
    int64_t page_size = 0, pages = 0;
    bool is_interleaved = false, are_positions_long = false;
    bool appends = false;
};

struct QuantizeArguments {
    void *x = nullptr, *q = nullptr;
    float *scale = nullptr, *zero = nullptr;  // Null: all 1; all 0.
    // For each block the bits of its largest magnitude, or where scales have two ends of its largest number, from 0 up; then for each block
    // of what is farthest below 0.
    int32_t *maxima = nullptr;
    int64_t extent[4] = {1, 1, 1, 1}, group[4] = {1, 1, 1, 1}, blocks[4] = {1, 1, 1, 1};
    int64_t x_stride[4] = {}, q_stride[4] = {};  // In numbers.
    int64_t scale_stride[4] = {}, zero_stride[4] = {}, maxima_stride[4] = {};
    int32_t shift[4] = {};  // A number's block along an axis is its index shifted by this: 63 where all share one.
    int64_t rows = 0,
            vectors = 0;  // Of x; of a row. Where lanes have whole rows, vectors are a power of two, of which the last may be empty.
    Divider row_vectors;  // vectors, if a tile may have several rows.
    int64_t parts = 1;    // Into which a block's rows or vectors are cut, where one launch finds maxima and another uses them.
    NumberKind kind = NumberKind::kI8;
    ScaleFrom from = ScaleFrom::kNone;
    FloatFormat format = {};
    float least = 0, most = 0;                // Of integers; the largest number of floats.
    int32_t width = 1;                        // Vectors of a block, for kLanes.
    int32_t each = 1;                         // Vectors that a thread of quantize_blocks holds.
    int32_t hadamard = 0;                     // 0, or how many numbers are rotated together,
    float rotation = 1;                       // and what they are multiplied by.
    bool has_two_ends = false;                // Scales of u4 that are made.
    bool each_column = false;                 // Numbers of a row that are neighbours have different blocks.
    bool x_vector = false, q_vector = false;  // Vectors are contiguous and aligned.
    RowPlaces places;
};

inline NumberKind kind_of(int32_t dtype) {
    switch (dtype) {
        case ATTILE_I8:
            return NumberKind::kI8;
        case ATTILE_I4:
            return NumberKind::kI4;
        case ATTILE_U4:
            return NumberKind::kU4;
        case ATTILE_F32:
            return NumberKind::kF32;
        case ATTILE_F16:
            return NumberKind::kF16;
        case ATTILE_BF16:
            return NumberKind::kBF16;
        default:
            return dtype == ATTILE_F8_E4M3 ? NumberKind::kE4m3 : NumberKind::kE5m2;
    }
}

// What numbers of a type are made with.
inline void set_numbers(int32_t dtype, QuantizeArguments &a) {
    a.kind = kind_of(dtype);
    a.format = a.kind == NumberKind::kE4m3 ? kE4m3Format : kE5m2Format;
    a.most = a.kind == NumberKind::kI8 ? 127.0f : a.kind == NumberKind::kI4 ? 7.0f : a.kind == NumberKind::kU4 ? 15.0f : a.format.largest;
    a.least = a.kind == NumberKind::kU4 ? 0.0f : -a.most;
}

}  // namespace attile::gpu::simt
