// SPDX-License-Identifier: Apache-2.0
// Sizes of a block of the backward tile kernel, and its panels on their way through shared memory.
//
// A score panel holds a chunk of columns of rows and keys, depth-major; stores transpose, and a pad of four floats puts the two quads of a
// row into different banks. A row panel holds a chunk of whole rows as they are. Both alternate between two places.
#pragma once

#include "attention/stream.h"
#include "attention_backward/tiles.h"
#include "gemm/simt/micro.h"

namespace attile::gpu::simt {

// A product's tile as GemmMicro wants it.
template <int kRowsOfTile, int kColsOfTile, int kMicroRows, int kMicroCols, int kLaneRowsOfGroup>
struct BackwardProduct {
    static constexpr int kM = kRowsOfTile, kN = kColsOfTile, kMicroM = kMicroRows, kMicroN = kMicroCols, kLaneRows = kLaneRowsOfGroup;
};

// Which quad of a chunk of whole rows of kQuads quads is a thread's i-th.
template <int kQuads, int kThreads>
struct BackwardLines {
    static constexpr bool kWhole = kThreads % kQuads == 0;  // Threads take whole rows at a time.
    static ATTILE_LANE_FN int row(int thread, int i) {
        return kWhole ? thread / kQuads + i * (kThreads / kQuads) : (thread + i * kThreads) / kQuads;
    }
    static ATTILE_LANE_FN int col(int thread, int i) { return (kWhole ? thread : thread + i * kThreads) % kQuads * 4; }
};

template <class C>
struct BackwardShape {
    using Scores = GemmMicro<typename C::Scores, float>;    // Query rows x keys, over columns.
    using Keys = GemmMicro<typename C::Keys, float>;        // Keys x columns, over query rows.
    using Queries = GemmMicro<typename C::Queries, float>;  // Query rows x columns of a pass, over keys.
    static constexpr int kThreads = Scores::kThreads;
    static constexpr int kBlockRows = C::Scores::kM, kBlockKeys = C::Scores::kN, kDepth = C::Keys::kN;
    static constexpr int kPassCols = C::Queries::kN, kPasses = kDepth / kPassCols;
    static_assert(Keys::kThreads == kThreads && Queries::kThreads == kThreads, "the same threads make every product");
    static_assert(C::Keys::kM == kBlockKeys && C::Queries::kM == kBlockRows && kPasses * kPassCols == kDepth, "tiles of one size");

    // Score panels.
    static constexpr int kChunkQuads = C::kChunkDepth / 4, kRowPitch = kBlockRows + 4, kKeyPitch = kBlockKeys + 4;
    static constexpr int kRowLoads = kBlockRows * kChunkQuads / kThreads;
    static constexpr int kKeyLoads = (kBlockKeys * kChunkQuads + kThreads - 1) / kThreads;
    static constexpr int kRowsAtOnce = kThreads / kChunkQuads;
    static_assert(kRowLoads * kThreads == kBlockRows * kChunkQuads, "every thread moves as many quads of query rows");
    static constexpr int kKeyPanel = C::kChunkDepth * kRowPitch;  // Where the keys' part begins.
    static constexpr int kScorePanel = kKeyPanel + C::kChunkDepth * kKeyPitch;
    // Row panels.
    using Lines = BackwardLines<kDepth / 4, kThreads>;
    using PassLines = BackwardLines<kPassCols / 4, kThreads>;
    static constexpr int kLineLoads = C::kChunkRows * kDepth / 4 / kThreads;
    static constexpr int kPassChunk = C::kChunkRows * kPasses;
    static_assert(kLineLoads * kThreads * 4 == C::kChunkRows * kDepth, "every thread moves as many quads");
    static_assert(kBlockRows % C::kChunkRows == 0 && kBlockKeys % kPassChunk == 0 && kDepth % C::kChunkDepth == 0, "whole chunks");
    static constexpr int kRowPanel = C::kChunkRows * kDepth;
    static constexpr int kPanel = kScorePanel > kRowPanel ? kScorePanel : kRowPanel;
    static constexpr int kStage = kRowLoads + kKeyLoads > kLineLoads ? kRowLoads + kKeyLoads : kLineLoads;

    // Probabilities, then gradients of scores, row by row; then those again, key by key.
    static constexpr int kPairs = kBlockRows * kKeyPitch > kBlockKeys *kRowPitch ? kBlockRows *kKeyPitch : kBlockKeys *kRowPitch;
    static constexpr int kRowNumbers = kPairs + 2 * kPanel;  // Log-sum-exp and delta of each row.
    static constexpr int kSharedFloats = kRowNumbers + 2 * kBlockRows;
    static_assert(kSharedFloats * sizeof(float) + sizeof(BackwardBlock) <= 49152, "48 KB");
};

}  // namespace attile::gpu::simt
