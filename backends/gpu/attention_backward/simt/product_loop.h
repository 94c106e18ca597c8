// SPDX-License-Identifier: Apache-2.0
// What the unfused kernels of attention's gradients share: sizes, what a block works on, and the loop over chunks of a product.
#pragma once

#include <type_traits>

#include "attention_backward/simt/shape.h"

namespace attile::gpu::simt {

// What scores pass through: a mask alone; bias, ALiBi or a mask of bytes; softcap, whatever else.
enum class BackwardScores { kMasked, kModified, kCapped };

// Gradients of kCols columns; visibility is told in units of kUnitRows rows and 128 keys. The tile of a block of the second kernel: kM x
// kN.
inline constexpr int kProductsChunk = 8;  // Of depth.
template <int kCols>
struct BackwardProducts {
    static constexpr int kDepth = kCols, kBlockKeys = 128, kThreads = 128, kBlocksPerUnit = 4, kChunk = kProductsChunk;
    using ScoreTile = BackwardProduct<64, 128, 8, 8, 4>;
    using GradientTile = std::conditional_t<kCols == 64, BackwardProduct<128, 64, 8, 8, 4>, BackwardProduct<64, 128, 8, 8, 4>>;
    static constexpr int kUnitRows = GradientTile::kM;
    static_assert(kUnitRows % ScoreTile::kM == 0 && kBlockKeys % GradientTile::kM == 0 && kCols % GradientTile::kN == 0, "whole tiles");
};

// Where a unit's rows begin in p.probabilities and p.gradients.
ATTILE_LANE_FN int64_t scores_at(const AttentionBackwardParams &p, int pair, int unit) {
    return part_of_unit(p, pair, unit) * p.block_rows * p.scores_pitch;
}

// What a block works on; kept in shared memory, since its sums leave no registers.
struct ProductsTask : BackwardBlock {
    int unit, part;  // Of rows: which unit, and which tile of it. Of keys: the first unit, and which tile of the block of keys.
    int first_col;
    int is_value;  // dV, else dK.

    ATTILE_LANE_FN const float *row_of(const AttentionOperand &x, const float *first, int of_head, int row) const {
        return reinterpret_cast<const float *>(reinterpret_cast<const char *>(first + of_head * x.stride[1]) +
                                               static_cast<int64_t>(row) * x.row_bytes);
    }
};

// Two chunks a round, so that the addresses of both stages are constants, of which the first is in shared memory: while one is multiplied
// the next is fetched into registers, and published before the chunk's last depth. `fetch` and `store` move a chunk, the latter to the
// floats it is given; `more` says after the second whether there is a third. The last step reads fragments of the first stage again, for
// nothing: without a test in between, fewer multiply-adds fetch three registers.
template <class Micro, int kPitchA, int kPitchB, class Sums, class More, class Fetch, class Store>
ATTILE_LANE_FN void multiply_chunks(float *shared, Sums &sums, const More &more, const Fetch &fetch, const Store &store) {
    constexpr int kChunk = kProductsChunk, kPanelA = kChunk * kPitchA, kStage = kPanelA + kChunk * kPitchB;
    const float *const from_a = shared + Micro::first_row(), *const from_b = shared + kPanelA + Micro::first_col();
    float a[2][8], b[2][8];
    const auto take = [&](int to, int stage, int k) {
        Micro::load_b(b[to], from_b + stage + k * kPitchB);
        Micro::load_a(a[to], from_a + stage + k * kPitchA);
    };
    const auto step = [&](int now, bool is_more) {
        if (is_more) fetch();
#pragma unroll
        for (int k = 0; k < kChunk; ++k) {
            const bool is_last = k + 1 == kChunk;
            if (is_last) {
                if (is_more) store(shared + (kStage - now));
                __syncthreads();
            }
            take((k + 1) % 2, is_last ? kStage - now : now, (k + 1) % kChunk);
            Micro::template multiply<false>(sums, a[k % 2], b[k % 2]);
            schedule_fence(sums);
        }
    };
    take(0, 0, 0);
#pragma unroll 1
    for (bool is_more = true; is_more;) {
        step(0, true);
        is_more = more();
        step(kStage, is_more);
    }
}

}  // namespace attile::gpu::simt
