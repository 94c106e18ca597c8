// SPDX-License-Identifier: Apache-2.0
// The configurations of the attention tile kernel (attention/simt/tile.cuh): O = softmax(Q K^T) V for a block of rows of one head. A lane
// owns kRows x kKeys of S and kRows x kCols of O; a group kLaneCols lane columns of them. A modified kernel may have a configuration of its
// own.
//
// Shared bytes: 4 * (depth * rows of Q + 2 chunks + 2 strips of probabilities a lane group + references, where they are kept there):
// Attention128 4 * (8192 + 2 * 512 + 4 * 2 * 256 + 64) = 45312. Registers, blocks a multiprocessor: 8 x 8 tiles 202 to 245, two blocks of
// 128 threads, modified 241 to 255; 8 x 4 tiles 153 to 168, three, modified 157 to 211, two or three; no spills (sm_61). Bound: arithmetic;
// a block of 128 rows does 4 * 128 FLOP for each 8 bytes of K and V. Record: docs/kernels/attention-simt.md.
#pragma once

#include "attention/block.h"
#include "attention/lanes.h"

namespace attile::gpu::simt {

struct AttentionBase {
    static constexpr int kRows = 8;  // Of a lane; also kKeys of S and kCols of O.
    static constexpr int kThreads = 128;
    // Keep references in shared memory, subtract them after the product instead of starting from them, compute anew what is cheap.
    static constexpr bool kFewRegisters = false;
    static constexpr int kModifiedBlocksPerUnit = 2, kPlainBlocksPerUnit = 0;  // 0: kBlocksPerUnit, as where masks are.
    static constexpr int kQuadsBeside = 1;                                     // Neighbouring threads that load quads of one row of Q.
    static constexpr bool kKeyRuns = false;  // A lane's keys come in runs of four, not lane columns apart.
    static constexpr bool kTileSums = true;  // Sum a tile's probabilities before they join the row: accurate at any length.
};

// Four lane columns: up to 32 columns of V. 64 rows a lane group.
struct Attention32 : AttentionBase {
    static constexpr int kLaneCols = 4, kKeys = 8, kCols = 8, kDepth = 32;
    static constexpr int kChunkDepth = 16, kChunksAtOnce = 1, kChunkKeys = 16, kStripsAtOnce = 4, kBlocksPerUnit = 2;
};
struct Attention32Short : Attention32 {
    static constexpr int kThreads = 64, kBlocksPerUnit = 4, kQuadsBeside = 2;
};
struct Attention32Modified : Attention32 {
    static constexpr int kRows = 4, kModifiedBlocksPerUnit = 3;
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
    // On AMD tiles of half the keys serve masks, too few for all threads to load chunks of eight columns.
    static constexpr int kCols = 5, kChunkDepth = kSparesRegisters ? 16 : 8, kDepth = kSparesRegisters ? 48 : 40;
};
// Half the keys, so that three blocks fit a unit: for grids that fill many waves of them and see all keys (with masks it is slower).
struct Attention64Dense : Attention64 {
    static constexpr int kKeys = 4, kChunksAtOnce = 2, kChunkKeys = 8, kStripsAtOnce = 2, kBlocksPerUnit = 3;
    static constexpr bool kFewRegisters = true, kTileSums = false;
};
// For what is read of memory for each score.
template <class C>
struct KeyRuns : C {
    static constexpr bool kKeyRuns = true;
};
// Half the keys, whose scores leave registers to AMD's compilers, which need them for masks and what modifies scores.
template <class Lean>
struct HalfKeys : Lean {
    static constexpr int kKeys = 4;
};
template <class C>
using Spared = std::conditional_t<kSparesRegisters, HalfKeys<C>, C>;

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
    static constexpr int kCols = 6, kDepth = 96, kModifiedBlocksPerUnit = 3;
};
struct Attention80 : Attention128 {
    static constexpr int kCols = 5, kDepth = 80, kModifiedBlocksPerUnit = 3;
};

// Sixteen lane columns of twelve or sixteen: up to 256. Four rows a lane, 8 a group, since the rows of Q have to fit.
struct Attention256 : AttentionBase {
    static constexpr int kRows = 4, kLaneCols = 16, kKeys = 8, kCols = 16, kDepth = 256;
    static constexpr int kChunkDepth = 8, kChunksAtOnce = 2, kChunkKeys = 4, kStripsAtOnce = 1, kBlocksPerUnit = 2;
};
// Deep chunks, for the sake of what is read at once of K's rows: shorter pieces keep the way to shared memory busy.
struct Attention256Plain : Attention256 {
    static constexpr int kChunkDepth = 16, kChunksAtOnce = 1;
};
struct Attention192 : Attention256 {
    static constexpr int kCols = 12, kDepth = 192, kPlainBlocksPerUnit = 3;
};

template <class C>
constexpr int blocks_per_unit(AttentionKind kind) {
    if (kind == AttentionKind::kModified) return C::kModifiedBlocksPerUnit;
    return kind == AttentionKind::kPlain && C::kPlainBlocksPerUnit != 0 ? C::kPlainBlocksPerUnit : C::kBlocksPerUnit;
}

// The order of fragment loads and multiplications: whichever gives ptxas the allocation with the fewest three-register fetches and bank
// conflicts, counted in sm_90 code made from compute_61 PTX, and of those the fastest. It means nothing else.
template <class C, AttentionKind kKind>
struct AttentionOrder {
    static constexpr bool kRowsFirst = C::kFewRegisters && kKind != AttentionKind::kModified;
    static constexpr bool kSquare = kKind == AttentionKind::kPlain && C::kRows == 8 && C::kKeys == 8 && C::kCols == 8;
    static constexpr Walk kScoreWalk = kRowsFirst ? Walk::kAlongRows : Walk::kAlongColumns;
    static constexpr Walk kOutWalk = kSquare ? Walk::kAlongRows : Walk::kAlongColumns;
    static constexpr bool kQueriesFirst = kRowsFirst || kSquare, kProbabilitiesFirst = kRowsFirst;
};

}  // namespace attile::gpu::simt
