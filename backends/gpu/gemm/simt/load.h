// SPDX-License-Identifier: Apache-2.0
// A panel of A or B on its way from global memory through registers to shared memory, where it lies depth-major: element (outer, depth) at
// depth * kRow + outer, widened to the compute type. kRow has a pad of 16 bytes: the depths that a transposing store writes at once then
// fall into different banks, and rows stay aligned to 16 bytes.
//
// Rows beyond the matrix are not zeroed but clamped to the last one: what they contribute lands in outputs nobody stores. The depth that is
// left over when whole chunks are cut off goes first. So the loop over the remaining chunks tests nothing at all.
#pragma once

#include "gemm/params.h"
#include "numeric.h"
#include "vec.h"

namespace attile::gpu::simt {

// How a panel is read. All but kScalar need unit stride along outer or along depth; panels that are contiguous along depth are transposed
// as they are stored. The aligned forms also need the contiguous extent, the other strides and the address in whole vectors.
enum class GemmAccess {
    kOuter,           // Aligned vectors along outer.
    kDepth,           // Aligned vectors along depth.
    kVector,          // Aligned vectors, the axis decided at run time.
    kUnaligned,       // The same elements, read one by one.
    kScalar,          // Any strides.
    kDepthUnaligned,  // Contiguous along depth, or outer, at any address (gemm/simt/load_unaligned.h).
    kOuterUnaligned,
};

inline constexpr int kGemmChunk = 8;  // Depth read at once.

template <class Element>
inline constexpr int kGemmVector = sizeof(Element) == 8 ? 2 : 4;

template <class Element, int kOuter, int kThreads, GemmAccess kAccess>
class GemmPanel {
  public:
    using T = Compute<Element>;
    static constexpr bool kScalar = kAccess == GemmAccess::kScalar;
    static constexpr int kVec = kScalar ? 1 : kGemmVector<Element>;
    static constexpr int kCount = kOuter * kGemmChunk / (kVec * kThreads);  // Accesses of a thread.
    static_assert(kCount * kVec * kThreads == kOuter * kGemmChunk, "every thread reads as much");
    // Distance between the rows of two depths: padded for stores that transpose, so that their banks differ.
    static constexpr int kRow = kOuter + (kAccess == GemmAccess::kOuter ? 0 : (kScalar ? 32 : 16) / static_cast<int>(sizeof(T)));

    ATTILE_LANE_FN GemmPanel(const GemmInput &input, int64_t batch_x, int64_t batch_y, int64_t outer_first, int64_t outer_extent,
                             int64_t depth_first)
        : depth_stride_(input.depth), runtime_along_depth_(input.along_depth != 0) {
        const unsigned index = threadIdx.x;
        const int outer = along_depth() ? index / kDeep : index % kWide * kVec;
        depth_ = along_depth() ? index % kDeep * kVec : index / kWide;
        to_ = depth_ * kRow + outer;
        const int64_t left = outer_extent - outer_first - (along_depth() || kAccess == GemmAccess::kUnaligned ? 1 : kVec);
        const int last = left < kOuter ? static_cast<int>(left) : kOuter;
        const int valid = min(outer, last);
        others_ = outer + outer_of(1) <= last;
        contiguous_ = along_depth() ? kVec : min(kVec, last + 1 - valid);
        at_ = static_cast<const Element *>(input.data) + batch_x * input.batch_x + batch_y * input.batch_y +
              (outer_first + valid) * input.outer + (depth_first + depth_) * input.depth;
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            offset_[i] = (min(outer + outer_of(i), last) - valid) * input.outer + depth_of(i) * input.depth;
        }
    }

    // Reads a chunk; of the guarded form, depths from `depth_left` on count as zero.
    template <bool kGuarded>
    ATTILE_LANE_FN void load(int depth_left) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            const Element *const at = i == 0 ? at_ : kAccess == GemmAccess::kOuter ? at_ + outer_of(i) : at_ + offset_[i];
            const int depth = depth_ + depth_of(i);
            if constexpr (kAccess == GemmAccess::kUnaligned) {
#pragma unroll
                for (int v = 0; v < kVec; ++v) {
                    if (kGuarded && depth + (along_depth() ? v : 0) >= depth_left) {
                        staged_[i][v] = Element{};
                    } else if (v == 0 || v < contiguous_) {
                        staged_[i][v] = load_vec_const<1>(at + v)[0];
                    }
                }
            } else if (kGuarded && depth >= depth_left) {
                staged_[i] = Vec<Element, kVec>{};
            } else if (kAccess != GemmAccess::kOuter || i == 0 || others_) {
                staged_[i] = load_vec_const<kVec>(at);
            }
        }
    }

    // The first chunk, of the depths that are left over when whole ones are cut off.
    ATTILE_LANE_FN void load_first(int64_t, int depth_left) { load<true>(depth_left); }
    ATTILE_LANE_FN void store_first(T *panel, T *) const { store(panel); }
    ATTILE_LANE_FN void advance_first(int depths) { advance(depths); }

    ATTILE_LANE_FN void advance(int depths) { at_ += kAccess == GemmAccess::kDepth ? depths : depths * depth_stride_; }

    ATTILE_LANE_FN void store(T *panel) const {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            T *to = panel + to_ + depth_of(i) * kRow + outer_of(i);
            if (kVec > 1 && !along_depth()) {
                Vec<T, kVec> wide;
#pragma unroll
                for (int v = 0; v < kVec; ++v) wide[v] = to_compute(staged_[i][v]);
                store_vec(to, wide);
            } else {
#pragma unroll
                for (int v = 0; v < kVec; ++v) to[v * kRow] = to_compute(staged_[i][v]);
            }
        }
    }
    ATTILE_LANE_FN void store_ahead(T *) const {}

  private:
    // The threads of a block lie kDeep along depth by kThreads / kDeep along outer, or kWide along outer by kThreads / kWide along depth.
    // A scalar access takes 4 x 8 elements a lane group: few lines are touched whichever axis is contiguous.
    static constexpr unsigned kDeep = kScalar ? 4 : kGemmChunk / kVec;
    static constexpr unsigned kWide = kOuter / kVec / (kAccess == GemmAccess::kOuter ? kCount : 1);
    static_assert(kThreads >= kDeep && kThreads >= kWide, "a row of the panel fits the block");
    static_assert(kAccess != GemmAccess::kOuter || kCount <= 2, "one flag for the accesses after the first");

    ATTILE_LANE_FN bool along_depth() const {
        if constexpr (kAccess == GemmAccess::kOuter) {
            return false;
        } else if constexpr (kAccess == GemmAccess::kVector || kAccess == GemmAccess::kUnaligned) {
            return runtime_along_depth_;
        } else {
            return true;
        }
    }
    // Where a thread's i-th access lies relative to its first.
    ATTILE_LANE_FN int depth_of(int i) const {
        if constexpr (kScalar) return i % 2 * 4;
        if constexpr (kAccess == GemmAccess::kOuter) return 0;  // A constant distance along outer needs no register.
        return along_depth() ? 0 : i * static_cast<int>(kThreads / kWide);
    }
    ATTILE_LANE_FN int outer_of(int i) const {
        if constexpr (kScalar) return i / 2 * static_cast<int>(kThreads / kDeep);
        if constexpr (kAccess == GemmAccess::kOuter) return i * static_cast<int>(kWide) * kVec;
        return along_depth() ? i * static_cast<int>(kThreads / kDeep) : 0;
    }

    const Element *at_;       // The first access.
    int64_t offset_[kCount];  // The others from there, in elements.
    int64_t depth_stride_;
    int depth_;       // Of the first access, within the chunk.
    int to_;          // Where it goes.
    bool others_;     // kOuter: the accesses after the first lie within the matrix (there are two at most).
    int contiguous_;  // Elements of an access that lie within the matrix, the depth aside.
    bool runtime_along_depth_;
    Vec<Element, kVec> staged_[kCount] = {};
};

}  // namespace attile::gpu::simt
