// SPDX-License-Identifier: Apache-2.0
// How the 32 lanes of a group share a tile of attention: lane rows own query rows, lane columns own keys of S and columns of O.
//
// A lane owns kRows query rows, always whole rows of its lane row, so softmax never leaves the group. Lane bit 0 is a column bit and the
// next are the row bits: shared memory serves lanes n and n^1, or n and n^2, that ask for the same 16 bytes at half the cost, and this way
// the fragments of both operands profit.
#pragma once

#include <type_traits>
#include <utility>

#include "numeric.h"
#include "vec.h"

namespace attile::gpu {

template <int kLaneCols, int kRows>
struct AttentionLanes {
    static_assert(kLaneCols == 4 || kLaneCols == 8 || kLaneCols == 16, "lane grids with a swizzle that is free of conflicts");
    static_assert(kRows == 4 || kRows == 8, "whole 16-byte fragments");
    static constexpr int kLaneRows = kLanes / kLaneCols;
    static constexpr int kGroupRows = kRows * kLaneRows;  // Query rows of a lane group.

    static ATTILE_LANE_FN int lane_row(unsigned lane) { return lane >> 1 & (kLaneRows - 1); }
    static ATTILE_LANE_FN int lane_col(unsigned lane) { return (lane & 1) | lane / (2 * kLaneRows) * 2; }

    // Row i of a lane within its group, less lane_row() * 4: rows come in quads, half the group apart.
    static constexpr __host__ __device__ int row(int i) { return (i & 3) + (i >> 2) * (kGroupRows / 2); }

    // Folds over the lanes that share a query row.
    template <class Combine>
    static ATTILE_LANE_FN float fold_row(float value, Combine combine) {
        value = combine(value, shuffle_xor(value, 1));
#pragma unroll
        for (int step = 2 * kLaneRows; step < kLanes; step *= 2) value = combine(value, shuffle_xor(value, step));
        return value;
    }
};

// The keys that a lane owns of a tile: the first, and how far after it the j-th lies.
template <class C>
struct LaneKeys {
    static constexpr __host__ __device__ int first(int lane_col) { return C::kKeyRuns ? 4 * lane_col : lane_col; }
    static constexpr __host__ __device__ int after(int j) { return C::kKeyRuns ? (j & 3) + (j >> 2) * 4 * C::kLaneCols : C::kLaneCols * j; }
};

// For lambdas whose captures must stay in registers.
#define ATTILE_ALWAYS_INLINE __attribute__((always_inline))

// A condition that hardly ever holds: its code is kept away from the loop around it, which has to fit the instruction cache.
ATTILE_LANE_FN bool rarely(bool condition) { return __builtin_expect(condition, false); }

// Calls `body` with std::integral_constant 0 .. kCount - 1: a loop that is unrolled whatever the compiler thinks of its length.
template <class Body, int... kIndex>
ATTILE_LANE_FN void unrolled(const Body &body, std::integer_sequence<int, kIndex...>) {
    (body(std::integral_constant<int, kIndex>{}), ...);
}
template <int kCount, class Body>
ATTILE_LANE_FN void unrolled(const Body &body) {
    unrolled(body, std::make_integer_sequence<int, kCount>{});
}

// Walks the outer product of kM x kN entries to and fro, along rows or along columns, so that each step shares an operand with the one
// before: the compiler then keeps it in the operand cache, and fewer steps fetch three registers, which would cost issue slots.
enum class Walk { kAlongRows, kAlongColumns };
template <int kM, int kN, Walk kWalk>
struct OuterProduct {
    static constexpr __host__ __device__ int row(int step) {
        if (kWalk == Walk::kAlongRows) return step / kN;
        return step / kM % 2 == 0 ? step % kM : kM - 1 - step % kM;
    }
    static constexpr __host__ __device__ int col(int step) {
        if (kWalk == Walk::kAlongColumns) return step / kM;
        return step / kN % 2 == 0 ? step % kN : kN - 1 - step % kN;
    }
};

}  // namespace attile::gpu
