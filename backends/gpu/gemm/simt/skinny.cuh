// SPDX-License-Identifier: Apache-2.0
// GEMM with at most 16 rows: D[m, n] from a short A and a wide B that is read once, so that memory is the bound.
//
// A block of 512 threads makes kRows x 32 outputs and shares their depth (see gemm/simt/skinny_rows.cuh). B goes straight to registers.
// With up to four rows A does too: nothing but the end joins the lane groups, so each runs as far ahead as memory lets it. With more rows A
// passes through shared memory, where every thread reads it by fours. At the end lanes halve their sums among each other until each holds a
// share, and the block adds the shares in a fixed order.
//
// Tile: kRows (1, 4, 8, 16) x 32, 256 depths a step; 512 threads; one block a multiprocessor. Shared bytes (float32): the shares, 16 or 2
// lane groups * kRows * 32 * 4 = 32768 at most; from 8 rows on, in the same place, A's two stages 2 * kRows * 256 * 4 = 32768 at most.
// Registers (sm_61): at most 128, no spills. Bound: memory, kRows / 2 FLOP a byte of B. Record: docs/kernels/gemm-simt.md.
#pragma once

#include "gemm/epilogue.h"
#include "gemm/simt/skinny_rows.cuh"

namespace attile::gpu::simt {

// The sums with A, contiguous along depth, in registers.
template <class Element, int kRows, bool kAlongDepth, bool kVectors, bool kOnce>
ATTILE_LANE_FN void skinny_sums_of_registers(Compute<Element> (&sum)[kRows * 4], const GemmParams &p, const Element *a,
                                             SkinnyB<Element, kAlongDepth, kVectors, kOnce> &b, int64_t depth) {
    using T = Compute<Element>;
    constexpr int kAhead = sizeof(Element) <= 4 && kRows == 1 ? 2 : 1;  // Steps fetched ahead.
    Element next_a[kAhead][kRows][4], next_b[kAhead][4][4];
    a += SkinnyPlace<kAlongDepth>::depth();
    const auto load = [&](int slot, int depth_left) {
        const int left = depth_left - SkinnyPlace<kAlongDepth>::depth();
        b.load(next_b[slot], depth_left);
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
#pragma unroll
            for (int d = 0; d < 4; ++d) {
                next_a[slot][row][d] = d < left ? load_vec_const<1>(a + (row < p.m ? row * p.a.outer : 0) + d)[0] : Element{};
            }
        }
        a += kGemmSkinnyStep;
    };
    const auto left_of = [&](int64_t step) { return static_cast<int>(min(depth - step * kGemmSkinnyStep, int64_t{kGemmSkinnyStep})); };
    const int64_t steps = (depth + kGemmSkinnyStep - 1) / kGemmSkinnyStep;
#pragma unroll
    for (int slot = 0; slot < kAhead; ++slot) {
        if (slot < steps) load(slot, left_of(slot));
    }
#pragma unroll 1
    for (int64_t first = 0; first < steps; first += kAhead) {
#pragma unroll
        for (int slot = 0; slot < kAhead; ++slot) {
            const int64_t step = first + slot;
            if (step >= steps) break;
            T now_a[kRows][4], now_b[4][4];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
#pragma unroll
                for (int i = 0; i < 4; ++i) now_b[i][j] = to_compute(next_b[slot][i][j]);
#pragma unroll
                for (int row = 0; row < kRows; ++row) now_a[row][j] = to_compute(next_a[slot][row][j]);
            }
            if (step + kAhead < steps) load(slot, left_of(step + kAhead));
#pragma unroll
            for (int row = 0; row < kRows; ++row) skinny_multiply<kAlongDepth>(sum + row * 4, now_a[row], now_b);
        }
    }
}

// The sums with A in shared memory: two stages of a step's kRows x 256 elements.
template <class Element, int kRows, bool kAlongDepth, bool kVectors, bool kOnce>
ATTILE_LANE_FN void skinny_sums_of_shared(Compute<Element> (&sum)[kRows * 4], const GemmParams &p, const Element *a,
                                          SkinnyB<Element, kAlongDepth, kVectors, kOnce> &b, int64_t depth_left, Compute<Element> *shared) {
    using T = Compute<Element>;
    constexpr int kStage = kRows * kGemmSkinnyStep;
    constexpr bool kFew = !kVectors && sizeof(Element) == 4;  // Registers left: the thread's number is not kept either.
    constexpr int kAllReads = kStage / kGemmSkinnyThreads;
    // Of A, what a thread fetches at once: all of a step, or less where B's scalars or the compiler leave few registers.
    constexpr int kReads = kSparesRegisters ? 1 : kVectors ? kAllReads : 2;
    constexpr int kParts = kAllReads / kReads;
    constexpr int kApart = kGemmSkinnyThreads / kGemmSkinnyStep;  // Rows from one read of a thread to its next.
    constexpr int kFragment = 16 / sizeof(T);
    constexpr int64_t kFar = 1 << 30;
    constexpr unsigned kWidth = kGemmSkinnyStep;
    const auto thread = [] { return kFew ? fresh_thread() : threadIdx.x; };
    {
        const int first_row = thread() / kWidth, first_depth = thread() % kWidth;
        a += first_row * p.a.outer + first_depth * p.a.depth;
    }

    Element next_a[kReads], next_b[4][4];
    const auto load_a = [&](int group, int left) {
        const unsigned here = thread();
        const int first_row = here / kWidth, first_depth = here % kWidth;
        const int rows = (static_cast<int>(p.m) - first_row + kApart - 1) / kApart;  // Reads that meet a row.
#pragma unroll
        for (int i = 0; i < kReads; ++i) {
            const int read = group * kReads + i;
            next_a[i] = first_depth < left && read < rows ? load_vec_const<1>(a + read * kApart * p.a.outer)[0] : Element{};
        }
        if (group == kParts - 1) a += kGemmSkinnyStep * p.a.depth;
    };
    const auto store_a = [&](int group, T *stage) {
        const unsigned here = thread();
#pragma unroll
        for (int i = 0; i < kReads; ++i) stage[here + (group * kReads + i) * kGemmSkinnyThreads] = to_compute(next_a[i]);
    };
    b.load(next_b, static_cast<int>(min(depth_left, kFar)));
#pragma unroll
    for (int group = 0; group < kParts; ++group) {
        load_a(group, static_cast<int>(min(depth_left, kFar)));
        store_a(group, shared);
    }
    __syncthreads();
    int stage = 0;
#pragma unroll 1
    while (depth_left > 0) {
        T now_b[4][4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) now_b[i][j] = to_compute(next_b[i][j]);
        }
        depth_left -= kGemmSkinnyStep;
        const bool more = depth_left > 0;
        const int next_left = static_cast<int>(min(depth_left, kFar));
        if (more) b.load(next_b, next_left);
#pragma unroll
        for (int group = 0; group < kParts; ++group) {
            if (more) load_a(group, next_left);
#pragma unroll
            for (int r = 0; r < kRows / kParts; ++r) {
                const int row = group * (kRows / kParts) + r;
                const T *const from = shared + stage + row * kGemmSkinnyStep + SkinnyPlace<kAlongDepth>::depth();
                T now_a[4];
#pragma unroll
                for (int v = 0; v < 4; v += kFragment) {
                    const auto part = load_vec<kFragment>(from + v);
#pragma unroll
                    for (int w = 0; w < kFragment; ++w) now_a[v + w] = part[w];
                }
                skinny_multiply<kAlongDepth>(sum + row * 4, now_a, now_b);
                schedule_fence(sum);
            }
            if (more) store_a(group, shared + kStage - stage);
        }
        stage = kStage - stage;
        __syncthreads();
    }
}

// kOnce: B is larger than the L2 cache and need not stay there.
template <class Element, int kRows, bool kAlongDepth, bool kVectors, bool kOnce = false>
__global__ void ATTILE_LAUNCH_BOUNDS(kGemmSkinnyThreads, 1) gemm_skinny_kernel(const GemmParams p) {
    using T = Compute<Element>;
    using Place = SkinnyPlace<kAlongDepth>;
    constexpr bool kRegisters = kRows <= kGemmSkinnyRegisterRows;
    constexpr int kStages = kRegisters ? 0 : 2 * kRows * kGemmSkinnyStep;
    constexpr int kShares = Place::kDepthGroups * kRows * kGemmSkinnyColumns;
    constexpr int kShared = kStages > kShares ? kStages : kShares;
    static_assert(kShared * sizeof(T) <= 49152, "48 KB");
    alignas(16) __shared__ T shared[kShared];

    const uint32_t entry = blockIdx.x / p.tiles_n;
    const int64_t col_first = static_cast<int64_t>(blockIdx.x % p.tiles_n) * kGemmSkinnyColumns;
    const int64_t split = entry % p.splits;
    const int64_t batch = p.first_batch + entry / p.splits;
    const int64_t batch_x = batch / p.batch_y;
    const int64_t batch_y = batch % p.batch_y;
    const int64_t depth_first = split * p.split_depth;
    const int64_t depth = min(p.k - depth_first, p.split_depth);

    const auto *const a = static_cast<const Element *>(p.a.data) + batch_x * p.a.batch_x + batch_y * p.a.batch_y + depth_first * p.a.depth;
    SkinnyB<Element, kAlongDepth, kVectors, kOnce> b(p, batch_x, batch_y, col_first, depth_first);
    T sum[kRows * 4] = {};
    if constexpr (kRegisters) {
        skinny_sums_of_registers<Element, kRows, kAlongDepth, kVectors, kOnce>(sum, p, a, b, depth);
    } else {
        skinny_sums_of_shared<Element, kRows, kAlongDepth, kVectors, kOnce>(sum, p, a, b, depth, shared);
    }

    // Sums over the lanes that hold other depths of the same outputs, then over the lane groups.
    constexpr int kShare = kRows * 4 > Place::kSharing ? kRows * 4 / Place::kSharing : 1;
    constexpr int kOwners = kRows * 4 / kShare;  // Of the lanes that share, those that end up with different values.
    constexpr int kLast = kLanes / Place::kSharing;
    const int first = share_out<16, kLast>(sum);
    const bool owner = lane_index() / kLast % (Place::kSharing / kOwners) == 0;
#pragma unroll
    for (int i = 0; i < kShare; ++i) {
        const int row = (first + i) / 4;
        const int column = Place::column_group() * 4 + (first + i) % 4;
        if (owner) shared[(Place::depth_group() * kRows + row) * kGemmSkinnyColumns + column] = sum[i];
    }
    __syncthreads();
    GemmOrigin origin;
    origin.set(p, batch_x, batch_y, 0, col_first, split * p.d_split);
    const GemmEpilogue<T, GemmParams> epilogue(p, origin);
#pragma unroll 1
    for (int index = static_cast<int>(threadIdx.x); index < kRows * kGemmSkinnyColumns; index += kGemmSkinnyThreads) {
        T total = shared[index];
#pragma unroll
        for (int group = 1; group < Place::kDepthGroups; ++group) total += shared[group * kRows * kGemmSkinnyColumns + index];
        const int row = index / kGemmSkinnyColumns;
        const int column = index % kGemmSkinnyColumns;
        if (row >= p.m || col_first + column >= p.columns) continue;
        epilogue.store(row, column, static_cast<T>(p.alpha) * total);
    }
}

}  // namespace attile::gpu::simt
