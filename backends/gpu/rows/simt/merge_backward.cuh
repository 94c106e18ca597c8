// SPDX-License-Identifier: Apache-2.0
// Gradients of merging: with w_p = exp(lse_p - lse), do_p = w_p dout and dlse_p = w_p (sum_d dout_d (o_p,d - o_d) + dlse).
//
// A row lies in the lanes of a group, as few as hold it, each with 16 bytes of a part; rows that are longer go round. Its dout and o stay
// in registers while its parts pass by, so that every tensor is read or written once. Up to kMergeParts parts in one launch: their
// addresses travel in the kernel's parameters, so the call can be captured. Sums are taken in the same order whether vectors or single
// elements are read. Block 256 threads, no shared memory, no workspace; intensity 1/2 FLOP a byte or less: bound by memory.
#pragma once

#include "rows/rows.h"
#include "rows/simt/merge.cuh"
#include "vec.h"

namespace attile::gpu::simt {

struct MergeGradientPart {
    const void *o = nullptr;
    const void *lse = nullptr;
    void *d_o = nullptr;
    void *d_lse = nullptr;
    int64_t stride[4] = {};      // Of o, axes b, h, l, d; d's is 1 for vectors.
    int64_t lse_stride[3] = {};  // Axes b, h, l.
    int64_t d_stride[4] = {};
    int64_t d_lse_stride[3] = {};
};

// o and dout, whose types are seen at run time: they are read once, where parts are many.
struct MergedRows {
    const void *data = nullptr;
    int64_t stride[4] = {};
    int32_t dtype = 0;
    bool is_vector = false;  // A lane's elements can be loaded at once.
};

struct MergeGradientArguments {
    MergeGradientPart part[kMergeParts];
    int32_t parts = 0;
    int32_t width = 1;  // Lanes of a row, a power of two up to kLanes.
    int64_t heads = 0, len = 0, rows = 0, head_dim = 0;
    MergedRows o, dout;
    const void *lse = nullptr;
    const void *dlse = nullptr;  // Null: 0.
    int64_t lse_stride[3] = {};
    int64_t dlse_stride[3] = {};
};

static_assert(sizeof(MergeGradientArguments) <= 4096, "kernel parameters");

// Elements that a lane takes at a time.
template <class T>
inline constexpr int kMergeVec = 16 / static_cast<int>(sizeof(T));

struct MergeRow {
    int64_t b, h, l;
    ATTILE_LANE_FN int64_t offset(const int64_t *stride) const { return b * stride[0] + h * stride[1] + l * stride[2]; }
};

// kVec elements from `column` on, those beyond the row 0.
template <class S, class C, int kVec>
ATTILE_LANE_FN void load_elements(const S *row, int64_t stride, int64_t column, int64_t head_dim, bool is_vector, C (&values)[kVec]) {
    if (is_vector) {
        const Vec<S, kVec> loaded = load_vec<kVec>(row + column);
#pragma unroll
        for (int j = 0; j < kVec; ++j) values[j] = static_cast<C>(to_compute(loaded[j]));
    } else {
#pragma unroll
        for (int j = 0; j < kVec; ++j) values[j] = column + j < head_dim ? static_cast<C>(to_compute(row[(column + j) * stride])) : C(0);
    }
}

template <class T, class C, int kVec>
ATTILE_LANE_FN void load_merged(const MergedRows &merged, int64_t offset, int64_t column, int64_t head_dim, C (&values)[kVec]) {
    const auto load_as = [&](auto element) {
        using S = decltype(element);
        load_elements(static_cast<const S *>(merged.data) + offset, merged.stride[3], column, head_dim, merged.is_vector, values);
    };
    if constexpr (sizeof(T) == 2) {
        load_as(T{});
    } else if (merged.dtype == ATTILE_F16) {
        load_as(F16{});
    } else if (merged.dtype == ATTILE_BF16) {
        load_as(BF16{});
    } else if (sizeof(T) == 4 || merged.dtype == ATTILE_F32) {
        load_as(float{});
    } else {
        load_as(T{});
    }
}

template <bool kIsVector, class Out, class C, int kVec>
ATTILE_LANE_FN void store_elements(Out *row, int64_t stride, int64_t column, int64_t head_dim, const C (&values)[kVec]) {
    if constexpr (kIsVector) {
        constexpr int kStore = sizeof(Out) * kVec <= 16 ? kVec : kVec / 2;
#pragma unroll
        for (int at = 0; at < kVec; at += kStore) {
            Vec<Out, kStore> stored;
#pragma unroll
            for (int j = 0; j < kStore; ++j) stored[j] = from_compute<Out>(static_cast<Compute<Out>>(values[at + j]));
            store_vec(row + column + at, stored);
        }
    } else {
#pragma unroll
        for (int j = 0; j < kVec; ++j) {
            if (column + j < head_dim) row[(column + j) * stride] = from_compute<Out>(static_cast<Compute<Out>>(values[j]));
        }
    }
}

template <class T, class Out, bool kIsVector>
__global__ void ATTILE_LAUNCH_BOUNDS(kRowThreads, kIsVector ? 4 : 2) merge_gradients(const MergeGradientArguments parameter) {
    const MergeGradientArguments &arguments = kernel_parameter(parameter);
    using C = Compute<T>;
    constexpr int kVec = kMergeVec<T>;
    const int width = arguments.width;
    const int64_t head_dim = arguments.head_dim, step = int64_t{width} * kVec;
    const int64_t first_column = int64_t{lane_index() % width} * kVec;
    const int rows_at_once = kRowThreads / width;
    const int64_t all_rows = int64_t{gridDim.x} * rows_at_once;
    // All lanes of a group stay together, those without a row too.
    for (int64_t first_row = int64_t{blockIdx.x} * rows_at_once; first_row < arguments.rows; first_row += all_rows) {
        const int64_t number = first_row + static_cast<int>(threadIdx.x) / width;
        const bool is_row = number < arguments.rows;
        const Division of_len = divide(is_row ? number : 0, arguments.len);
        const Division of_head = divide(of_len.quotient, arguments.heads);
        const MergeRow row = {of_head.quotient, of_head.remainder, of_len.remainder};
        C dout[kVec], o[kVec];
        int64_t held = -1;  // Their column.
        const C lse = static_cast<const C *>(arguments.lse)[row.offset(arguments.lse_stride)];
        const C dlse = arguments.dlse != nullptr ? static_cast<const C *>(arguments.dlse)[row.offset(arguments.dlse_stride)] : C(0);
#pragma unroll 1
        for (int p = 0; p < arguments.parts; ++p) {
            const MergeGradientPart &part = arguments.part[p];
            const C part_lse = static_cast<const C *>(part.lse)[row.offset(part.lse_stride)];
            const T *o_part = static_cast<const T *>(part.o) + row.offset(part.stride);
            Out *d_o = static_cast<Out *>(part.d_o) + row.offset(part.d_stride);
            // What a part without keys holds is never used.
            const bool counts = lse != lowest<C>() && part_lse != lowest<C>();
            const C weight = counts ? exp(part_lse - lse) : C(0);
            C sum = 0;
#pragma unroll 1
            for (int64_t column = first_column; is_row && column < head_dim; column += step) {
                if (held != column) {
                    load_merged<T>(arguments.dout, row.offset(arguments.dout.stride), column, head_dim, dout);
                    load_merged<T>(arguments.o, row.offset(arguments.o.stride), column, head_dim, o);
                    held = column;
                }
                C values[kVec];
                load_elements(o_part, part.stride[3], column, head_dim, kIsVector, values);
#pragma unroll
                for (int j = 0; j < kVec; ++j) {
                    sum = counts ? fused_multiply_add(dout[j], values[j] - o[j], sum) : C(0);
                    values[j] = counts ? weight * dout[j] : C(0);
                }
                store_elements<kIsVector>(d_o, part.d_stride[3], column, head_dim, values);
            }
#pragma unroll
            for (int mask = kLanes / 2; mask > 0; mask /= 2) {
                const C other = shuffle_xor(sum, mask);
                if (mask < width) sum += other;
            }
            if (is_row && first_column == 0)
                static_cast<C *>(part.d_lse)[row.offset(part.d_lse_stride)] = counts ? weight * (sum + dlse) : C(0);
        }
    }
}

}  // namespace attile::gpu::simt
