// SPDX-License-Identifier: Apache-2.0
// Parts of the skinny GEMM: where a thread stands, how it reads B, and how sums are added across lanes.
//
// A thread takes 4 columns x 4 depths of B at a time, in four accesses of four elements. If B is contiguous along columns, a lane group
// covers 32 columns x 16 depths and the block's lane groups follow each other along depth; if it is contiguous along depth, a lane group
// covers 4 columns x 128 depths, and eight of them make up the 32 columns. Either way a step of the block is 32 columns x 256 depths.
#pragma once

#include "gemm/params.h"
#include "gemm/simt/load.h"
#include "gemm/simt/table.h"
#include "numeric.h"
#include "vec.h"

namespace attile::gpu::simt {

template <bool kAlongDepth>
struct SkinnyPlace {
    static constexpr int kColumnGroups = kGemmSkinnyColumns / 4;
    static constexpr int kGroups = kGemmSkinnyThreads / kLanes;
    static constexpr int kDepthGroups = kAlongDepth ? kGroups / kColumnGroups : kGroups;  // Lane groups that share the outputs.
    static constexpr int kSharing = kAlongDepth ? kLanes : kLanes / kColumnGroups;        // Lanes that share the outputs.

    static ATTILE_LANE_FN int column_group() { return kAlongDepth ? lane_group_index() % kColumnGroups : lane_index() % kColumnGroups; }
    static ATTILE_LANE_FN int depth_group() { return kAlongDepth ? lane_group_index() / kColumnGroups : lane_group_index(); }
    // The first of the thread's four depths within a step.
    static ATTILE_LANE_FN int depth() {
        return kAlongDepth ? (depth_group() * kLanes + lane_index()) * 4 : depth_group() * 16 + lane_index() / kColumnGroups * 4;
    }
};

// Reads B a step at a time. Columns beyond the matrix are clamped: nobody stores their sums. Whether it is read in vectors is fixed when
// compiled: a branch at run time would end in copies of what was loaded, which wait for it, and one load at a time would be under way.
// kOnce: what is read need not stay in the caches.
template <class Element, bool kAlongDepth, bool kVectors, bool kOnce>
class SkinnyB {
  public:
    using Place = SkinnyPlace<kAlongDepth>;

    ATTILE_LANE_FN SkinnyB(const GemmParams &p, int64_t batch_x, int64_t batch_y, int64_t col_first, int64_t depth_first)
        : column_stride_(p.b.outer), depth_stride_(p.b.depth) {
        const int64_t last = kVectors && !kAlongDepth ? p.n - 4 : p.n - 1;  // Vectors along columns: n is a multiple of four.
        const int64_t col = min(col_first + Place::column_group() * 4, last);
        columns_ = static_cast<int>(min(p.n - col, int64_t{4}));
        at_ = static_cast<const Element *>(p.b.data) + batch_x * p.b.batch_x + batch_y * p.b.batch_y + col * p.b.outer +
              (depth_first + Place::depth()) * p.b.depth;
    }

    // [i][j]: the j-th element of the i-th access: column j at depth i, or depth j of column i. Depths of the step from depth_left on are
    // zero.
    ATTILE_LANE_FN void load(Element (&b)[4][4], int depth_left) {
        const Element *at = at_;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int left = depth_left - Place::depth() - (kAlongDepth ? 0 : i);
            const int valid = kAlongDepth ? left : left > 0 ? columns_ : 0;
            if constexpr (kVectors) {
#pragma unroll
                for (int j = 0; j < 4; j += kVec) {
                    const Vec<Element, kVec> part = valid > 0 ? load_part(at + j) : Vec<Element, kVec>{};
#pragma unroll
                    for (int v = 0; v < kVec; ++v) b[i][j + v] = part[v];
                }
            } else {
#pragma unroll
                for (int j = 0; j < 4; ++j) b[i][j] = j < valid ? load_vec_const<1>(at + j)[0] : Element{};
            }
            if (!kAlongDepth) {
                at += depth_stride_;
            } else if (i + 1 < columns_) {
                at += column_stride_;
            }
        }
        at_ += kGemmSkinnyStep * depth_stride_;
    }

  private:
    static constexpr int kVec = kGemmVector<Element>;

    static ATTILE_LANE_FN Vec<Element, kVec> load_part(const Element *at) {
        return kOnce ? load_vec_last<kVec>(at) : load_vec_const<kVec>(at);
    }

    const Element *at_;
    int64_t column_stride_, depth_stride_;
    int columns_;  // Of the four, those that exist.
};

// sum[c] += sum over four depths of a[d] * b[d][c], for one row of A.
template <bool kAlongDepth, class T>
ATTILE_LANE_FN void skinny_multiply(T *sum, const T (&a)[4], const T (&b)[4][4]) {
#pragma unroll
    for (int d = 0; d < 4; ++d) {
#pragma unroll
        for (int c = 0; c < 4; ++c) sum[c] = fused_multiply_add(a[d], kAlongDepth ? b[c][d] : b[d][c], sum[c]);
    }
}

// Adds values over the lanes that differ in the bits of kMask, kMask / 2, .. kLast. While a lane has more than one it hands half of them
// over and keeps the other half, so that the work halves at each step. Returns the index of the first value that it ends up with.
template <int kMask, int kLast, int kValues, class T>
ATTILE_LANE_FN int share_out(T (&values)[kValues], int first = 0) {
    if constexpr (kMask < kLast) {
        return first;
    } else if constexpr (kValues == 1) {
        values[0] += shuffle_xor(values[0], kMask);
        return share_out<kMask / 2, kLast>(values, first);
    } else {
        const bool upper = (lane_index() & kMask) != 0;
        T kept[kValues / 2];
#pragma unroll
        for (int i = 0; i < kValues / 2; ++i) {
            const T low = values[i], high = values[i + kValues / 2];
            kept[i] = pick(upper, high, low) + shuffle_xor(pick(upper, low, high), kMask);
        }
        first = share_out<kMask / 2, kLast>(kept, first + (upper ? kValues / 2 : 0));
#pragma unroll
        for (int i = 0; i < kValues / 2; ++i) values[i] = kept[i];
        return first;
    }
}

}  // namespace attile::gpu::simt
