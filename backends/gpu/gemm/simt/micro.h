// SPDX-License-Identifier: Apache-2.0
// The register tile of a GEMM thread: fragments of A and B from shared memory, and their outer product.
//
// A lane group covers (kLaneRows * kMicroM) x (kLaneCols * kMicroN) outputs. A lane owns groups of 16 bytes, kLaneRows (kLaneCols) groups
// apart, so that a fragment load is one 16-byte access whose addresses lie side by side across lanes. Lane bit 0 is a column bit and bit 1
// a row bit: shared memory serves lanes n and n^1, or n and n^2, that ask for the same 16 bytes in one go, and this way both operands
// profit.
#pragma once

#include "numeric.h"
#include "vec.h"

namespace attile::gpu::simt {

template <class Config, class T>
struct GemmMicro {
    static constexpr int kLaneRows = Config::kLaneRows;
    static constexpr int kLaneCols = kLanes / kLaneRows;
    static constexpr int kVec = 16 / sizeof(T);
    static constexpr int kGroupM = kLaneRows * Config::kMicroM;  // Outputs of a lane group.
    static constexpr int kGroupN = kLaneCols * Config::kMicroN;
    static constexpr int kGroupsN = Config::kN / kGroupN;
    static constexpr unsigned kWidth = kLanes;
    static constexpr int kThreads = Config::kM / Config::kMicroM * (Config::kN / Config::kMicroN);
    static_assert(kThreads * Config::kMicroM * Config::kMicroN == Config::kM * Config::kN && kThreads % kLanes == 0, "whole lane groups");
    static_assert(Config::kM % kGroupM == 0 && Config::kN % kGroupN == 0, "lane groups tile the block");
    static_assert(Config::kMicroM % kVec == 0 && Config::kMicroN % kVec == 0, "whole 16-byte fragments");

    static ATTILE_LANE_FN int lane_row() { return threadIdx.x / 2u % kLaneRows; }
    static ATTILE_LANE_FN int lane_col() { return threadIdx.x % 2u + threadIdx.x % kWidth / (2u * kLaneRows) * 2u; }
    static ATTILE_LANE_FN int group_row() { return threadIdx.x / kWidth / kGroupsN * kGroupM; }
    static ATTILE_LANE_FN int group_col() { return threadIdx.x / kWidth % kGroupsN * kGroupN; }
    // First row and column of this thread within the block's tile, and of its i-th relative to that.
    static ATTILE_LANE_FN int first_row() { return group_row() + lane_row() * kVec; }
    static ATTILE_LANE_FN int first_col() { return group_col() + lane_col() * kVec; }
    static constexpr __host__ __device__ int row(int i) { return i / kVec * kLaneRows * kVec + i % kVec; }
    static constexpr __host__ __device__ int col(int j) { return j / kVec * kLaneCols * kVec + j % kVec; }

    // `from` points at the depth's row of the panel, at this thread's first row or column.
    static ATTILE_LANE_FN void load_a(T (&a)[Config::kMicroM], const T *from) {
#pragma unroll
        for (int i = 0; i < Config::kMicroM; i += kVec) {
            const Vec<T, kVec> part = load_vec<kVec>(from + row(i));
#pragma unroll
            for (int v = 0; v < kVec; ++v) a[i + v] = part[v];
        }
    }
    static ATTILE_LANE_FN void load_b(T (&b)[Config::kMicroN], const T *from) {
#pragma unroll
        for (int j = 0; j < Config::kMicroN; j += kVec) {
            const Vec<T, kVec> part = load_vec<kVec>(from + col(j));
#pragma unroll
            for (int v = 0; v < kVec; ++v) b[j + v] = part[v];
        }
    }

    // Rows (or columns) are walked to and fro, so that each step shares an operand with the one before: the compiler then keeps it in the
    // operand cache, and fewer steps fetch three registers, which costs issue slots. Which of the two gives ptxas the better allocation of
    // registers to banks depends on all of the kernel, and was counted in its output.
    template <bool kByColumns>
    static ATTILE_LANE_FN void multiply(T (&sum)[Config::kMicroM][Config::kMicroN], const T (&a)[Config::kMicroM],
                                        const T (&b)[Config::kMicroN]) {
        constexpr int kFast = kByColumns ? Config::kMicroM : Config::kMicroN;
#pragma unroll
        for (int step = 0; step < Config::kMicroM * Config::kMicroN; ++step) {
            const int slow = step / kFast;
            const int fast = slow % 2 == 0 ? step % kFast : kFast - 1 - step % kFast;
            const int i = kByColumns ? fast : slow;
            const int j = kByColumns ? slow : fast;
            sum[i][j] = fused_multiply_add(a[i], b[j], sum[i][j]);
        }
    }
};

}  // namespace attile::gpu::simt
