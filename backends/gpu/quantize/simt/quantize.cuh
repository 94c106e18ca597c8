// SPDX-License-Identifier: Apache-2.0
// Quantisation and back at the speed of memory:
//
// quantize_numbers  numbers of scales that are known, or of blocks of a row that neighbouring lanes have: x is read once. dequantize: back.
// quantize_blocks   a thread block for each block of scales, which it reads again only if it does not fit its registers.
// quantize_columns  neighbours of a row have different blocks: a thread for 16 bytes of columns, which reads a block of rows twice.
// quantize_maxima   few large blocks in parts, and quantize_maxima_any whatever a rotation leaves: maxima alone, joined by atomicMax, for
//                   quantize_numbers.
//
// Block 256 threads. Shared: 64 bytes. Bound: memory. Record: docs/kernels/quantize.md.
#pragma once

#include "quantize/simt/numbers.cuh"

namespace attile::gpu::simt {

// A lane group's tile of kVectors vectors a lane, which may be of several rows.
template <class T, bool kPlain>
class QuantizeTile {
  public:
    static constexpr int kVec = kQuantizeVec<T>, kVectors = kQuantizeTile / kLanes / kVec;

    ATTILE_LANE_FN QuantizeTile(const QuantizeArguments &a, int64_t tile) : a_(a) {
        const Division start = divide(tile * (kVectors * kLanes), a.vectors);
        row_ = start.quotient;
        vector_ = start.remainder;
    }
    static ATTILE_LANE_FN int64_t count(const QuantizeArguments &a) {
        return (a.rows * a.vectors + kVectors * kLanes - 1) / (kVectors * kLanes);
    }
    ATTILE_LANE_FN Spot<kPlain> spot(int j) const {
        int64_t row = row_, vector = vector_ + j * kLanes + lane_index();
        if (vector >= a_.vectors) {
            if (a_.vectors < kVectors * kLanes) {
                const uint32_t rows = quotient(static_cast<uint32_t>(vector), a_.row_vectors);
                row += rows;
                vector -= static_cast<int64_t>(rows) * a_.vectors;
            } else {
                row += 1;
                vector -= a_.vectors;
            }
        }
        if (row >= a_.rows) return {{{0, 0, 0}}, 0, 0};
        if (kPlain) return {{{0, 0, row}}, vector * kVec, vector * kVec < a_.extent[3] ? kVec : 0};
        return {row_index(a_.extent, row), vector * kVec, count_at<kVec>(vector * kVec, a_.extent[3])};
    }

  private:
    const QuantizeArguments &a_;
    int64_t row_, vector_;
};

// Calls visit(tile) for each tile of this lane group.
template <class T, bool kPlain, class Visit>
ATTILE_LANE_FN void for_tiles(const QuantizeArguments &a, Visit visit) {
    constexpr int kGroups = kQuantizeThreads / kLanes;
    const int64_t tiles = QuantizeTile<T, kPlain>::count(a);
    for (int64_t tile = static_cast<int64_t>(blockIdx.x) * kGroups + lane_group_index(); tile < tiles;
         tile += static_cast<int64_t>(gridDim.x) * kGroups)
        visit(QuantizeTile<T, kPlain>(a, tile));
}

template <int kVectors>
ATTILE_LANE_FN void fold_lanes(const QuantizeArguments &a, Extremes (&found)[kVectors]) {
#pragma unroll
    for (int apart = 1; apart < kLanes; apart *= 2) {
        if (apart < a.width) {
#pragma unroll
            for (int j = 0; j < kVectors; ++j) {
                found[j].high = max(found[j].high, shuffle_xor(found[j].high, apart));
                if (a.has_two_ends) found[j].low = max(found[j].low, shuffle_xor(found[j].low, apart));
            }
        }
    }
#pragma unroll
    for (int apart = 1; apart < kVectors; apart *= 2) {
        if (apart * kLanes < a.width) {
#pragma unroll
            for (int j = 0; j < kVectors; ++j) {
                if ((j & apart) != 0) continue;
                found[j].add(found[j + apart]);
                found[j + apart] = found[j];
            }
        }
    }
}

template <class T, bool kPlain>
__global__ void ATTILE_LAUNCH_BOUNDS(kQuantizeThreads, kPlain ? 4 : 2) quantize_numbers(const QuantizeArguments parameter) {
    const QuantizeArguments &a = kernel_parameter(parameter);
    using Tile = QuantizeTile<T, kPlain>;
    for_tiles<T, kPlain>(a, [&](const Tile &tile) {
        float x[Tile::kVectors][Tile::kVec];
#pragma unroll
        for (int j = 0; j < Tile::kVectors; ++j) load_numbers<T>(a, tile.spot(j), x[j]);
        if (a.hadamard > 1) rotate(a, x);
        Extremes found[Tile::kVectors] = {};
        if (a.from == ScaleFrom::kLanes) {
#pragma unroll
            for (int j = 0; j < Tile::kVectors; ++j) {
#pragma unroll
                for (int i = 0; i < Tile::kVec; ++i) found[j].add(a.has_two_ends, x[j][i]);
            }
            fold_lanes(a, found);
        }
#pragma unroll
        for (int j = 0; j < Tile::kVectors; ++j) {
            const Spot<kPlain> spot = tile.spot(j);
            if (spot.count == 0) continue;
            Spot<kPlain> to = spot;
            if (!kPlain && !find_place(a.places, to.row)) continue;
            if (!kPlain && a.each_column) {
                BlockScale blocks[Tile::kVec];
#pragma unroll
                for (int i = 0; i < Tile::kVec; ++i) {
                    blocks[i] = {1, 0};
                    if (i >= spot.count) continue;
                    const int64_t column = spot.column + i;
                    if (a.from == ScaleFrom::kTensor) {
                        blocks[i] = given_scale(a, to.row, column);
                        continue;
                    }
                    blocks[i] = scale_of(a, found_extremes(a, block_of(a, a.maxima_stride, spot.row, column)));
                    if (is_first(spot.row.at[0], a.shift[0]) && is_first(spot.row.at[1], a.shift[1]) &&
                        is_first(spot.row.at[2], a.shift[2]))
                        write_scale(a, to.row, column, blocks[i]);
                }
                convert(a, to, blocks, x[j]);
                continue;
            }
            BlockScale block = {1, 0};
            if (a.from == ScaleFrom::kTensor) {
                block = given_scale(a, to.row, spot.column);
            } else if (a.from != ScaleFrom::kNone) {
                if (a.from == ScaleFrom::kMaxima) found[j] = found_extremes(a, block_of(a, a.maxima_stride, spot.row, spot.column));
                block = scale_of(a, found[j]);
                if (is_first(spot.row.at[0], a.shift[0]) && is_first(spot.row.at[1], a.shift[1]) && is_first(spot.row.at[2], a.shift[2]) &&
                    is_first(spot.column, a.shift[3]))
                    write_scale(a, to.row, spot.column, block);
            }
            convert(a, to, block, x[j]);
        }
    });
}

template <class T, bool kPlain>
__global__ void ATTILE_LAUNCH_BOUNDS(kQuantizeThreads, 4) dequantize(const QuantizeArguments parameter) {
    const QuantizeArguments &a = kernel_parameter(parameter);
    using Tile = QuantizeTile<T, kPlain>;
    for_tiles<T, kPlain>(a, [&](const Tile &tile) {
        float x[Tile::kVectors][Tile::kVec];
#pragma unroll
        for (int j = 0; j < Tile::kVectors; ++j) {
            const Spot<kPlain> spot = tile.spot(j);
#pragma unroll
            for (int i = 0; i < Tile::kVec; ++i) x[j][i] = 0;
            if (spot.count == 0) continue;
            fetch_numbers(a, spot, x[j]);
            BlockScale block = {1, 0};
            if ((kPlain || !a.each_column)) block = given_scale(a, spot.row, spot.column);
#pragma unroll
            for (int i = 0; i < Tile::kVec; ++i) {
                if (!kPlain && a.each_column && i < spot.count) block = given_scale(a, spot.row, spot.column + i);
                x[j][i] = rounded_product(block.scale, x[j][i] - block.zero);
            }
        }
        if (a.hadamard > 1) rotate(a, x);
#pragma unroll
        for (int j = 0; j < Tile::kVectors; ++j) {
            const Spot<kPlain> spot = tile.spot(j);
            if (spot.count != 0) store_x<T>(a, spot, x[j]);
        }
    });
}

// The numbers that share a scale: rows of part of the last axis, and vectors of those.
template <class T, bool kPlain>
class ScaleBlock {
  public:
    static constexpr int kVec = kQuantizeVec<T>;

    ATTILE_LANE_FN ScaleBlock(const QuantizeArguments &a, int64_t block) : a_(a) {
        const Division last = divide(block, a.blocks[3]);
        first_ = kPlain ? RowIndex{{0, 0, last.quotient}} : row_index(a.blocks, last.quotient);
#pragma unroll
        for (int axis = kPlain ? 2 : 0; axis < 3; ++axis) first_.at[axis] *= a.group[axis];
        column_ = last.remainder * a.group[3];
        vectors_ = (a.group[3] + kVec - 1) / kVec;
    }
    ATTILE_LANE_FN const RowIndex &first() const { return first_; }
    ATTILE_LANE_FN int64_t column() const { return column_; }
    ATTILE_LANE_FN int64_t rows() const { return kPlain ? a_.group[2] : a_.group[0] * a_.group[1] * a_.group[2]; }
    ATTILE_LANE_FN int64_t vectors() const { return rows() * vectors_; }
    ATTILE_LANE_FN RowIndex row(int64_t number) const {
        if (kPlain) return {{0, 0, first_.at[2] + number}};
        RowIndex at = row_index(a_.group, number);
#pragma unroll
        for (int axis = 0; axis < 3; ++axis) at.at[axis] += first_.at[axis];
        return at;
    }
    ATTILE_LANE_FN Spot<kPlain> spot(int64_t vector) const {
        if (vector >= vectors()) return {{{0, 0, 0}}, 0, 0};
        const Division at = rows() == 1 ? Division{0, vector} : divide(vector, vectors_);
        if (kPlain) return {row(at.quotient), column_ + at.remainder * kVec, kVec};
        return {row(at.quotient), column_ + at.remainder * kVec, count_at<kVec>(at.remainder * kVec, a_.group[3])};
    }

  private:
    const QuantizeArguments &a_;
    RowIndex first_;
    int64_t column_, vectors_;
};

struct Join {
    ATTILE_LANE_FN Extremes operator()(Extremes one, const Extremes &other) const {
        one.add(other);
        return one;
    }
};

// `each` vectors from number `begin` on for each thread, a lane group's together: loaded and rotated.
template <class T, bool kPlain, int kVectors, int kVec>
ATTILE_LANE_FN void load_piece(const QuantizeArguments &a, const ScaleBlock<T, kPlain> &block, int64_t begin, float (&x)[kVectors][kVec]) {
#pragma unroll
    for (int j = 0; j < kVectors; ++j) {
        Spot<kPlain> spot = {{{0, 0, 0}}, 0, 0};
        if (j < a.each) spot = block.spot(begin + j * kLanes);
        load_numbers<T>(a, spot, x[j]);
    }
    if (a.hadamard > 1) rotate(a, x);
}

template <class T, bool kPlain>
__global__ void ATTILE_LAUNCH_BOUNDS(kQuantizeThreads, 2) quantize_blocks(const QuantizeArguments parameter) {
    const QuantizeArguments &a = kernel_parameter(parameter);
    constexpr int kVec = kQuantizeVec<T>, kVectors = kQuantizeHeld / kVec, kGroups = kQuantizeThreads / kLanes;
    __shared__ Extremes shared[kGroups];
    const int64_t count = a.blocks[0] * a.blocks[1] * a.blocks[2] * a.blocks[3], piece = static_cast<int64_t>(a.each) * kQuantizeThreads;
    const int64_t mine = static_cast<int64_t>(lane_group_index()) * a.each * kLanes + lane_index();
    for (int64_t number = blockIdx.x; number < count; number += gridDim.x) {
        const ScaleBlock<T, kPlain> block(a, number);
        RowIndex home = block.first();
        if (!kPlain && !find_place(a.places, home)) continue;
        const int64_t pieces = (block.vectors() + piece - 1) / piece;
        float x[kVectors][kVec];
        Extremes found = {};
        for (int64_t p = 0; p < pieces; ++p) {
            load_piece(a, block, p * piece + mine, x);
#pragma unroll
            for (int j = 0; j < kVectors; ++j) {
#pragma unroll
                for (int i = 0; i < kVec; ++i) found.add(a.has_two_ends, x[j][i]);
            }
        }
        const BlockScale scale = scale_of(a, row_fold<kQuantizeThreads>(found, shared, Join{}));
        if (threadIdx.x == 0) write_scale(a, home, block.column(), scale);
        for (int64_t p = pieces - 1; p >= 0; --p) {
            if (p != pieces - 1) load_piece(a, block, p * piece + mine, x);
#pragma unroll
            for (int j = 0; j < kVectors; ++j) {
                if (j >= a.each) continue;
                Spot<kPlain> spot = block.spot(p * piece + mine + j * kLanes);
                if (!kPlain && a.places.appends) spot.row = home;
                if (spot.count != 0) convert(a, spot, scale, x[j]);
            }
        }
    }
}

// A block's vectors in parts, one for each thread block in turn.
template <class T>
__global__ void ATTILE_LAUNCH_BOUNDS(kQuantizeThreads, 2) quantize_maxima(const QuantizeArguments parameter) {
    const QuantizeArguments &a = kernel_parameter(parameter);
    constexpr int kVec = kQuantizeVec<T>, kVectors = kQuantizeHeld / kVec, kGroups = kQuantizeThreads / kLanes;
    __shared__ Extremes shared[kGroups];
    const int64_t count = a.blocks[0] * a.blocks[1] * a.blocks[2] * a.blocks[3] * a.parts;
    const int64_t piece = static_cast<int64_t>(a.each) * kQuantizeThreads;
    const int64_t mine = static_cast<int64_t>(lane_group_index()) * a.each * kLanes + lane_index();
    for (int64_t number = blockIdx.x; number < count; number += gridDim.x) {
        const Division at = divide(number, a.parts);
        const ScaleBlock<T, false> block(a, at.quotient);
        Extremes found = {};
        for (int64_t begin = at.remainder * piece; begin < block.vectors(); begin += a.parts * piece) {
            float x[kVectors][kVec];
            load_piece(a, block, begin + mine, x);
#pragma unroll
            for (int j = 0; j < kVectors; ++j) {
#pragma unroll
                for (int i = 0; i < kVec; ++i) found.add(a.has_two_ends, x[j][i]);
            }
        }
        found = row_fold<kQuantizeThreads>(found, shared, Join{});
        if (threadIdx.x == 0) join_extremes(a, at.quotient, found);
    }
}

// Each number, or each lane's vector, for itself.
template <class T>
__global__ void ATTILE_LAUNCH_BOUNDS(kQuantizeThreads, 4) quantize_maxima_any(const QuantizeArguments parameter) {
    const QuantizeArguments &a = kernel_parameter(parameter);
    using Tile = QuantizeTile<T, false>;
    for_tiles<T, false>(a, [&](const Tile &tile) {
        float x[Tile::kVectors][Tile::kVec];
#pragma unroll
        for (int j = 0; j < Tile::kVectors; ++j) load_numbers<T>(a, tile.spot(j), x[j]);
        if (a.hadamard > 1) rotate(a, x);
#pragma unroll
        for (int j = 0; j < Tile::kVectors; ++j) {
            const Spot<false> spot = tile.spot(j);
            Extremes all = {};
#pragma unroll
            for (int i = 0; i < Tile::kVec; ++i) {
                if (i >= spot.count) continue;
                Extremes one = {};
                one.add(a.has_two_ends, x[j][i]);
                if (a.each_column) join_extremes(a, block_of(a, a.maxima_stride, spot.row, spot.column + i), one);
                all.add(one);
            }
            if (!a.each_column && spot.count != 0) join_extremes(a, block_of(a, a.maxima_stride, spot.row, spot.column), all);
        }
    });
}

// Blocks of one column, whose rows have no places: a thread has kVec of them, or a part of their rows.
template <class T>
__global__ void ATTILE_LAUNCH_BOUNDS(kQuantizeThreads, 2) quantize_columns(const QuantizeArguments parameter) {
    const QuantizeArguments &a = kernel_parameter(parameter);
    constexpr int kVec = kQuantizeVec<T>;
    const int64_t count = a.blocks[0] * a.blocks[1] * a.blocks[2] * a.vectors * a.parts;
    for (int64_t item = static_cast<int64_t>(blockIdx.x) * kQuantizeThreads + threadIdx.x; item < count;
         item += static_cast<int64_t>(gridDim.x) * kQuantizeThreads) {
        const Division at = divide(item, a.vectors), of = divide(at.quotient, a.parts);
        const int64_t column = at.remainder * kVec;
        const ScaleBlock<T, false> block(a, of.quotient * a.blocks[3] + column);
        const int64_t share = (block.rows() + a.parts - 1) / a.parts, begin = of.remainder * share;
        const int64_t end = begin + share < block.rows() ? begin + share : block.rows();
        Spot<false> spot = {{{0, 0, 0}}, column, count_at<kVec>(column, a.extent[3])};
        Extremes found[kVec] = {};
        for (int64_t row = begin; row < end; ++row) {
            float x[kVec];
            spot.row = block.row(row);
            load_numbers<T, false>(a, spot, x);
#pragma unroll
            for (int i = 0; i < kVec; ++i) found[i].add(a.has_two_ends, x[i]);
        }
        if (a.from == ScaleFrom::kMaxima) {
#pragma unroll
            for (int i = 0; i < kVec; ++i) {
                if (i < spot.count) join_extremes(a, block_of(a, a.maxima_stride, block.first(), column + i), found[i]);
            }
            continue;
        }
        BlockScale scales[kVec];
#pragma unroll
        for (int i = 0; i < kVec; ++i) {
            scales[i] = scale_of(a, found[i]);
            if (i < spot.count) write_scale(a, block.first(), column + i, scales[i]);
        }
        for (int64_t row = begin; row < end; ++row) {
            float x[kVec];
            spot.row = block.row(row);
            load_numbers<T, false>(a, spot, x);
            convert(a, spot, scales, x);
        }
    }
}

}  // namespace attile::gpu::simt
