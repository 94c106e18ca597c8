// SPDX-License-Identifier: Apache-2.0
// The configurations of the tile kernel. A modified kernel (attention_kernels.h) may have one of its own: beside an 8 x 8 tile of scores
// there are not enough registers for bias, slopes and strides, and nothing may spill.
// A lane owns kRows x kKeys of S and kRows x kCols of O; a group kLaneCols lane columns of them.
#pragma once

#include "tile/attention_block.h"
#include "tile/attention_lanes.h"

namespace attile::simt {

struct AttentionBase {
    static constexpr int kRows = 8;  // Of a lane; also kKeys of S and kCols of O.
    static constexpr int kThreads = 128;
    // Keep references in shared memory, subtract them after the product instead of starting from them, compute anew what is cheap.
    static constexpr bool kFewRegisters = false;
    static constexpr bool kTileSums = true;  // Sum a tile's probabilities before they join the row: accurate at any length.
};

// Four lane columns: up to 32 columns of V. 64 rows a lane group.
struct Attention32 : AttentionBase {
    static constexpr int kLaneCols = 4, kKeys = 8, kCols = 8, kDepth = 32;
    static constexpr int kChunkDepth = 16, kChunksAtOnce = 1, kChunkKeys = 16, kStripsAtOnce = 4, kBlocksPerUnit = 2;
};
struct Attention32Short : Attention32 {
    static constexpr int kThreads = 64, kBlocksPerUnit = 4;
};
struct Attention32Modified : Attention32 {
    static constexpr int kRows = 4;
};

// Eight lane columns: up to 64. 32 rows a lane group.
struct Attention64 : AttentionBase {
    static constexpr int kLaneCols = 8, kKeys = 8, kCols = 8, kDepth = 64;
    static constexpr int kChunkDepth = 16, kChunksAtOnce = 1, kChunkKeys = 16, kStripsAtOnce = 4, kBlocksPerUnit = 2;
};
struct Attention48 : Attention64 {
    static constexpr int kCols = 6, kDepth = 48;
};
struct Attention40 : Attention64 {
    static constexpr int kCols = 5, kDepth = 48;
};
// Half the keys, so that three blocks fit a unit: for grids that fill many waves of them and see all keys (with masks it is slower).
struct Attention64Dense : Attention64 {
    static constexpr int kKeys = 4, kChunksAtOnce = 2, kChunkKeys = 8, kStripsAtOnce = 2, kBlocksPerUnit = 3;
    static constexpr bool kFewRegisters = true, kTileSums = false;
};
// Half the keys, whose scores leave registers for what modifies them.
template <class Lean>
struct HalfKeys : Lean {
    static constexpr int kKeys = 4;
};

// Sixteen lane columns: up to 128. 16 rows a lane group. Half the keys, so that three blocks fit a unit.
struct Attention128 : AttentionBase {
    static constexpr int kLaneCols = 16, kKeys = 4, kCols = 8, kDepth = 128;
    static constexpr int kChunkDepth = 8, kChunksAtOnce = 2, kChunkKeys = 4, kStripsAtOnce = 1, kBlocksPerUnit = 3;
    static constexpr bool kFewRegisters = true, kTileSums = false;
};
struct Attention112 : Attention128 {
    static constexpr int kCols = 7, kDepth = 112;
};
struct Attention96 : Attention128 {
    static constexpr int kCols = 6, kDepth = 96;
};
struct Attention80 : Attention128 {
    static constexpr int kCols = 5, kDepth = 80;
};

// Sixteen lane columns of twelve or sixteen: up to 256. Four rows a lane, 8 a group, since the rows of Q have to fit.
struct Attention256 : AttentionBase {
    static constexpr int kRows = 4, kLaneCols = 16, kKeys = 8, kCols = 16, kDepth = 256;
    static constexpr int kChunkDepth = 8, kChunksAtOnce = 2, kChunkKeys = 4, kStripsAtOnce = 1, kBlocksPerUnit = 2;
};
struct Attention192 : Attention256 {
    static constexpr int kCols = 12, kDepth = 192;
};

// The order of fragment loads and multiplications: whichever gives ptxas the allocation with the fewest three-register fetches and bank
// conflicts, counted in sm_90 code made from compute_61 PTX, and of those the fastest. It means nothing else.
template <class C, AttentionKind kKind>
struct AttentionOrder {
    static constexpr bool kRowsFirst = C::kFewRegisters && kKind != AttentionKind::kModified;
    static constexpr Walk kScoreWalk = kRowsFirst ? Walk::kAlongRows : Walk::kAlongColumns, kOutWalk = Walk::kAlongColumns;
    static constexpr bool kQueriesFirst = kRowsFirst, kProbabilitiesFirst = kRowsFirst;
};

}  // namespace attile::simt
