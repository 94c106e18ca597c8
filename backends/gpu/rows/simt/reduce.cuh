// SPDX-License-Identifier: Apache-2.0
// Sum, maximum, minimum over one axis, at the speed of memory: each input element is read once, in 16-byte accesses where alignment allows.
//
// reduce_rows     the reduced axis is contiguous, or nothing is. kWidth threads share a row: 4, 32 or the block's 256, by the row's length.
//                 Short rows are taken kRows at a time, or a thread would wait for its one or two loads.
// reduce_columns  an axis that stays is contiguous: threads lie along it, and the block's spare threads split the reduced axis.
// reduce_few      the same, of an axis so short that a thread takes all of it for the columns of a vector: sums of a few arrays.
// The first two cut long rows into splits, whose partial results a second launch of the same kernels combines, so that one huge row fills
// the device.
//
// Block 256 threads. Shared: rows 8 x 8 bytes; columns 256 threads x 16 or 32 bytes <= 8192. Arithmetic intensity 1/4 FLOP a byte: bound by
// memory; four 16-byte loads a thread are kept in flight. The order of additions depends on the shape and the device alone, so results
// repeat; partial sums of a thread are 1/(256 x splits) of the row, which keeps float32 errors near those of pairwise summation. Minimum is
// the maximum of negated numbers: one flipped sign bit costs less than another instance of each kernel.
#pragma once

#include <type_traits>

#include "rows/rows.h"
#include "vec.h"

namespace attile::gpu::simt {

// What results are stored as. Partial results are of the compute type and dense.
enum class ReduceOutput : int32_t { kPartial, kF32, kF64, kF16, kBF16 };

struct ReduceArguments {
    const void *x = nullptr;
    void *y = nullptr;
    RowAxes axes;                 // Rows; for columns, the outer ones, with extents of columns apart.
    int64_t columns = 1;          // Columns alone: extent of the contiguous axis,
    int64_t column_stride_y = 0;  // and its stride in y.
    int64_t length = 0;           // Of the reduced axis,
    int64_t stride = 0;           // and its stride in x.
    int32_t splits = 1;
    int64_t split_length = 0;  // Elements of each split but the last.
    int32_t lanes = 1;         // Columns alone: threads along the columns, a power of two up to 256.
    double divisor = 1;        // Of the final sum.
    int32_t negate_in = 0;     // Minimum as maximum:
    int32_t negate_out = 0;    // both in a single pass, one each in the first and the last of two.
    int32_t whole_y = 0;       // Few alone: y has x's type, and takes whole vectors.
    ReduceOutput output = ReduceOutput::kF32;
};

template <bool kIsSum, class C>
struct Fold {
    static ATTILE_LANE_FN C identity() { return kIsSum ? C(0) : lowest<C>(); }
    ATTILE_LANE_FN C operator()(C a, C b) const { return kIsSum ? a + b : max_nan(a, b); }
};

template <class C>
ATTILE_LANE_FN C reduce_finish(const ReduceArguments &arguments, C value) {
    if (arguments.negate_out != 0 && value == value) value = -value;  // NaN keeps its usual sign.
    if (arguments.divisor != 1) value = static_cast<C>(value / arguments.divisor);
    return value;
}

template <class C>
ATTILE_LANE_FN void reduce_store(const ReduceArguments &arguments, int64_t offset, C value) {
    value = reduce_finish(arguments, value);
    switch (arguments.output) {
        case ReduceOutput::kPartial:
            static_cast<C *>(arguments.y)[offset] = value;
            break;
        case ReduceOutput::kF32:
            static_cast<float *>(arguments.y)[offset] = static_cast<float>(value);
            break;
        case ReduceOutput::kF64:
            static_cast<double *>(arguments.y)[offset] = value;
            break;
        case ReduceOutput::kF16:
            static_cast<F16 *>(arguments.y)[offset] = from_compute<F16>(static_cast<float>(value));
            break;
        case ReduceOutput::kBF16:
            static_cast<BF16 *>(arguments.y)[offset] = from_compute<BF16>(static_cast<float>(value));
            break;
    }
}

template <class T, bool kIsSum, int kWidth, int kRows, int kVec>
__global__ void ATTILE_LAUNCH_BOUNDS(kRowThreads, 4) reduce_rows(const ReduceArguments arguments) {
    using C = Compute<T>;
    const Fold<kIsSum, C> fold;
    __shared__ C shared[kRowThreads / kLanes];
    constexpr int kGroups = kRowThreads / kWidth;
    constexpr int kPer = (kVec > 1 || sizeof(T) == 8 ? 4 : 8) / kRows;  // Vectors of a row that a thread has under way at once.
    constexpr int kSums = kRows > 1 ? 1 : kVec;                         // Long rows get a running sum for each element of a vector.
    static_assert(kPer >= 1 && (kRows == 1 || kWidth <= kLanes), "rows together are rows of a lane group");
    using Index = typename std::conditional<(kRows > 1), int32_t, int64_t>::type;  // Within a split; rows taken together are short.
    const int group = static_cast<int>(threadIdx.x) / kWidth;
    const int lane = static_cast<int>(threadIdx.x) % kWidth;
    const int64_t items = arguments.axes.count() * arguments.splits;
    const C sign = arguments.negate_in != 0 ? C(-1) : C(1);

    for (int64_t base = int64_t{blockIdx.x} * (kGroups * kRows); base < items; base += int64_t{gridDim.x} * (kGroups * kRows)) {
        C sums[kRows][kSums];
        const T *x[kRows];
        Index count[kRows];  // 0 for lanes without an item, which stay for the folding.
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
            const int64_t item = base + row * kGroups + group;
            const Division of_split = divide(item < items ? item : 0, kRows > 1 ? 1 : arguments.splits);
            const RowOffset offset = row_offset(arguments.axes, of_split.quotient);
            const int64_t first = of_split.remainder * arguments.split_length;
            const int64_t left = arguments.length - first;
            count[row] = static_cast<Index>(item >= items ? 0 : left < arguments.split_length ? left : arguments.split_length);
            x[row] = static_cast<const T *>(arguments.x) + offset.x + first * arguments.stride;
#pragma unroll
            for (int j = 0; j < kSums; ++j) sums[row][j] = fold.identity();
        }
        Index v = lane;
        if constexpr (kRows == 1) {  // Long rows: nothing to check until their end.
            const Index whole = count[0] / kVec - (kPer - 1) * kWidth;
            for (; v < whole; v += kPer * kWidth) {
                Vec<T, kVec> loaded[kPer];
#pragma unroll
                for (int u = 0; u < kPer; ++u)
                    loaded[u] = load_vec_const<kVec>(x[0] + (v + u * kWidth) * (kVec > 1 ? kVec : arguments.stride));
#pragma unroll
                for (int u = 0; u < kPer; ++u) {
#pragma unroll
                    for (int j = 0; j < kVec; ++j) sums[0][j] = fold(sums[0][j], sign * to_compute(loaded[u][j]));
                }
            }
        }
        const Index most = static_cast<Index>(kRows > 1 ? arguments.length : count[0]) / kVec;
        for (; v < most; v += kPer * kWidth) {
            Vec<T, kVec> loaded[kRows][kPer];
#pragma unroll
            for (int row = 0; row < kRows; ++row) {
#pragma unroll
                for (int u = 0; u < kPer; ++u) {
                    const Index at = v + u * kWidth;
                    if (at < count[row] / kVec) loaded[row][u] = load_vec_const<kVec>(x[row] + at * (kVec > 1 ? kVec : arguments.stride));
                }
            }
#pragma unroll
            for (int row = 0; row < kRows; ++row) {
#pragma unroll
                for (int u = 0; u < kPer; ++u) {
                    if (v + u * kWidth >= count[row] / kVec) continue;
#pragma unroll
                    for (int j = 0; j < kVec; ++j) sums[row][j % kSums] = fold(sums[row][j % kSums], sign * to_compute(loaded[row][u][j]));
                }
            }
        }
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
            for (Index i = count[row] / kVec * kVec + lane; i < count[row]; i += kWidth) {  // Fewer than kVec, so contiguous.
                sums[row][0] = fold(sums[row][0], sign * to_compute(x[row][i]));
            }
#pragma unroll
            for (int step = kSums / 2; step > 0; step /= 2) {
#pragma unroll
                for (int j = 0; j < kSums / 2; ++j) {  // A constant end: compilers unroll this loop before the one around it.
                    if (j < step) sums[row][j] = fold(sums[row][j], sums[row][j + step]);
                }
            }
            const C total = row_fold<kWidth>(sums[row][0], shared, fold);
            const int64_t item = base + row * kGroups + group;
            if (lane == 0 && item < items) {
                const bool is_partial = arguments.output == ReduceOutput::kPartial;
                reduce_store<C>(arguments, is_partial ? item : row_offset(arguments.axes, item).y, total);
            }
        }
    }
}

template <class T, bool kIsSum, int kVec>
__global__ void ATTILE_LAUNCH_BOUNDS(kRowThreads, 4) reduce_columns(const ReduceArguments arguments) {
    using C = Compute<T>;
    const Fold<kIsSum, C> fold;
    __shared__ C shared[kRowThreads * kVec];
    constexpr int kUnroll = kVec > 1 || sizeof(T) == 8 ? 4 : 8;
    const int lanes = arguments.lanes, slots = kRowThreads / lanes;
    const int lane = static_cast<int>(threadIdx.x) & (lanes - 1);
    const int slot = static_cast<int>(threadIdx.x) / lanes;
    const int64_t tile_columns = int64_t{lanes} * kVec;
    const int64_t tiles = (arguments.columns + tile_columns - 1) / tile_columns;
    const int64_t items = arguments.axes.count() * tiles * arguments.splits;
    const C sign = arguments.negate_in != 0 ? C(-1) : C(1);

    for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
        // Splits are outermost, so that blocks that run together read neighbouring columns of the same rows.
        const Division of_tile = divide(item, tiles);
        const Division of_outer = divide(of_tile.quotient, arguments.axes.count());
        const int64_t tile = of_tile.remainder, outer = of_outer.remainder, split = of_outer.quotient;
        const RowOffset offset = row_offset(arguments.axes, outer);
        const int64_t column = tile * tile_columns + lane * kVec;
        const bool is_column = column < arguments.columns;
        const int64_t first = split * arguments.split_length;
        const int64_t left = arguments.length - first;
        const int64_t count = left < arguments.split_length ? left : arguments.split_length;
        C sums[kVec];
#pragma unroll
        for (int j = 0; j < kVec; ++j) sums[j] = fold.identity();
        if (is_column) {
            const T *x = static_cast<const T *>(arguments.x) + offset.x + first * arguments.stride + column;
            int64_t r = slot;
            for (; r + (kUnroll - 1) * slots < count; r += kUnroll * slots) {
                Vec<T, kVec> loaded[kUnroll];
#pragma unroll
                for (int u = 0; u < kUnroll; ++u) loaded[u] = load_vec_const<kVec>(x + (r + u * slots) * arguments.stride);
#pragma unroll
                for (int j = 0; j < kVec; ++j) {
                    C part = sign * to_compute(loaded[0][j]);
#pragma unroll
                    for (int u = 1; u < kUnroll; ++u) part = fold(part, sign * to_compute(loaded[u][j]));
                    sums[j] = fold(sums[j], part);
                }
            }
            for (; r < count; r += slots) {
                const Vec<T, kVec> loaded = load_vec_const<kVec>(x + r * arguments.stride);
#pragma unroll
                for (int j = 0; j < kVec; ++j) sums[j] = fold(sums[j], sign * to_compute(loaded[j]));
            }
        }
        for (int half = slots / 2; half > 0; half /= 2) {
            __syncthreads();
            if (slot >= half && slot < 2 * half) {
#pragma unroll
                for (int j = 0; j < kVec; ++j) shared[j * kRowThreads + threadIdx.x] = sums[j];
            }
            __syncthreads();
            if (slot < half) {
#pragma unroll
                for (int j = 0; j < kVec; ++j) sums[j] = fold(sums[j], shared[j * kRowThreads + threadIdx.x + half * lanes]);
            }
        }
        if (slot == 0 && is_column) {
            const bool is_partial = arguments.output == ReduceOutput::kPartial;
            const int64_t start = is_partial ? (outer * arguments.splits + split) * arguments.columns : offset.y;
#pragma unroll
            for (int j = 0; j < kVec; ++j) {
                reduce_store<C>(arguments, start + (column + j) * (is_partial ? 1 : arguments.column_stride_y), sums[j]);
            }
        }
    }
}

template <class T, bool kIsSum, int kVec>
__global__ void ATTILE_LAUNCH_BOUNDS(kRowThreads, 4) reduce_few(const ReduceArguments arguments) {
    using C = Compute<T>;
    const Fold<kIsSum, C> fold;
    constexpr int kUnroll = 4;
    const int64_t across = arguments.columns / kVec, items = arguments.axes.count() * across;
    const int32_t length = static_cast<int32_t>(arguments.length);
    const C sign = arguments.negate_in != 0 ? C(-1) : C(1);
    for (int64_t item = int64_t{blockIdx.x} * kRowThreads + threadIdx.x; item < items; item += int64_t{gridDim.x} * kRowThreads) {
        const Division of_outer = divide(item, across);
        const RowOffset offset = row_offset(arguments.axes, of_outer.quotient);
        const int64_t column = of_outer.remainder * kVec;
        const T *x = static_cast<const T *>(arguments.x) + offset.x + column;
        C sums[kVec];
#pragma unroll
        for (int j = 0; j < kVec; ++j) sums[j] = fold.identity();
#pragma unroll 1
        for (int32_t r = 0; r < length; r += kUnroll, x += kUnroll * arguments.stride) {
            Vec<T, kVec> loaded[kUnroll];
#pragma unroll
            for (int u = 0; u < kUnroll; ++u) {
                if (r + u < length) loaded[u] = load_vec_const<kVec>(x + u * arguments.stride);
            }
#pragma unroll
            for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
                for (int j = 0; j < kVec; ++j) sums[j] = r + u < length ? fold(sums[j], sign * to_compute(loaded[u][j])) : sums[j];
            }
        }
        if (kVec > 1 && arguments.whole_y != 0) {
            Vec<T, kVec> whole;
#pragma unroll
            for (int j = 0; j < kVec; ++j) whole[j] = from_compute<T>(reduce_finish(arguments, sums[j]));
            store_vec(static_cast<T *>(arguments.y) + offset.y + column, whole);
            continue;
        }
#pragma unroll
        for (int j = 0; j < kVec; ++j) reduce_store<C>(arguments, offset.y + (column + j) * arguments.column_stride_y, sums[j]);
    }
}

}  // namespace attile::gpu::simt
