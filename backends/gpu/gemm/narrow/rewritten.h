// SPDX-License-Identifier: Apache-2.0
// An operand of a product of 8 or 4 bits, and the dense rows that it is rewritten as.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "device.h"
#include "gemm/narrow/kernels.h"
#include "gemm/narrow_operands.h"
#include "gemm/problem.h"
#include "host/sizes.h"
#include "host/workspace.h"

namespace attile::gpu::narrow {

inline constexpr int64_t kWholeRow = 32;  // Elements that rewritten rows are a multiple of.

inline int64_t bytes_of(int32_t dtype) { return (dtype & 0xff) / 8; }

// A or B: along its own axis and along the depth.
struct Side {
    const attile_operand *x;
    int64_t outer, outer_stride, depth_stride;
    BlockScales scale, zero;

    bool is_scaled_along_depth(int64_t k) const { return scale.data != nullptr && scale.depth_group.divisor < k; }
};

inline Side side_a(const attile_gemm_problem &p) {
    return {&p.a, p.m, p.a.stride[2], p.a.stride[3], scales_of(p.a_scale, 2, 3, p.a_group[0], p.a_group[1]), {}};
}
inline Side side_b(const attile_gemm_problem &p) {
    return {&p.b,
            p.n,
            p.b.stride[3],
            p.b.stride[2],
            scales_of(p.b_scale, 3, 2, p.b_group[1], p.b_group[0]),
            scales_of(p.b_zero, 3, 2, p.b_group[1], p.b_group[0])};
}

// The dense rows that an operand is rewritten as.
struct Rewritten {
    int32_t dtype = 0;  // 0: it stays where it is.
    bool is_scaled = false;
    int64_t row = 0, count_x = 1, count_y = 1, bytes = 0;
    int parts = 1, part[kMostParts] = {};

    Rewritten() = default;
    Rewritten(const attile_gemm_problem &p, const Side &side, int32_t to, bool scaled, std::initializer_list<int> cut = {})
        : dtype(to), is_scaled(scaled) {
        if (cut.size() > 0) parts = static_cast<int>(cut.size());
        std::copy(cut.begin(), cut.end(), part);
        row = ceil_div(std::max<int64_t>(p.k, 1), kWholeRow) * kWholeRow;
        const auto count = [&](int axis, int64_t of_scale, int64_t of_zero) {
            return side.x->stride[axis] == 0 && !(scaled && (of_scale != 0 || of_zero != 0)) ? 1 : p.batch[axis];
        };
        count_x = count(0, side.scale.batch_x, side.zero.batch_x);
        count_y = count(1, side.scale.batch_y, side.zero.batch_y);
        bytes = count_x * count_y * side.outer * line() * bytes_of(to);
    }
    bool is_made() const { return dtype != 0; }
    int64_t line() const { return row * parts; }  // From row to row.
    int64_t workspace() const { return is_made() ? workspace_piece(bytes) : 0; }
    // As an operand with these strides of its axes.
    attile_operand operand(const Side &side, void *data, int outer_axis) const {
        attile_operand x = {};
        x.data = data;
        x.dtype = dtype;
        x.stride[0] = count_x > 1 ? count_y * side.outer * line() : 0;
        x.stride[1] = count_y > 1 ? side.outer * line() : 0;
        x.stride[outer_axis] = line();
        x.stride[5 - outer_axis] = 1;
        return x;
    }
    int32_t launch(Device &device, const attile_gemm_problem &p, const Side &side, void *to, Stream stream) const {
        RewriteParams params = {};
        params.from = side.x->data;
        params.to = to;
        // Bytes of 8-bit floats are copied as those of int8.
        const bool are_bytes = dtype == ATTILE_F8_E4M3;
        params.from_dtype = are_bytes ? ATTILE_I8 : side.x->dtype;
        params.to_dtype = are_bytes ? ATTILE_I8 : dtype;
        params.from_batch_x = side.x->stride[0];
        params.from_batch_y = side.x->stride[1];
        params.from_outer = side.outer_stride;
        params.from_depth = side.depth_stride;
        params.outer = side.outer;
        params.depth = p.k;
        params.row = row;
        params.parts = parts;
        std::copy(part, part + kMostParts, params.part);
        params.count_x = count_x;
        params.count_y = count_y;
        if (is_scaled) params.scale = side.scale;
        if (is_scaled) params.zero = side.zero;
        const int64_t tiles = ceil_div(row, kRewriteDepth) * ceil_div(side.outer, kRewriteRows) * count_x * count_y;
        const int64_t most = int64_t{16} * std::max(1, device.properties().compute_units);
        void *arguments[] = {&params, nullptr};
        return device.launch(rewrite_kernel(), Dim3{static_cast<uint32_t>(std::min(tiles, most)), 1, 1}, Dim3{kRewriteThreads, 1, 1}, 0,
                             arguments, stream);
    }
};

}  // namespace attile::gpu::narrow
