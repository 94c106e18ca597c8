// SPDX-License-Identifier: Apache-2.0
// The configurations of the tile kernel (attention/simt/tile.cuh), and what is known of its speed. A modified kernel may have one of its
// own. A lane owns kRows x kKeys of S and kRows x kCols of O; a group kLaneCols lane columns of them.
//
// The kernel computes O = softmax(Q K^T) V for a block of rows of one head, K and V streaming through shared memory in chunks, Q in it for
// as long as the block lives. Shared bytes: 4 * (depth * rows of Q + 2 chunks + 2 strips of probabilities a lane group + references, where
// they are kept there): Attention128 4 * (8192 + 2 * 512 + 4 * 2 * 256 + 64) = 45312. Registers, blocks a unit: 8 x 8 tiles 202 to 245, two
// blocks of 128 threads, modified 241 to 255; 8 x 4 tiles 153 to 168, three, modified 157 to 211, two or three; no spills (sm_61, and sm_90
// from compute_61 PTX). Arithmetic intensity: a block of 128 rows does 4 * 128 FLOP for each 8 bytes of K and V.
//
// Best measured (H200, compute_61 PTX, TFLOP/s; tools/compare_peers.py measures again): d = 64, (500, 2048) 48.5 full, 42.9 causal; (2,
// 32768) 48.5; d = 128, S = 2k to 16k 47.2 to 48.2; d = 32, (4, 32768) 46.1, (13600, 128) 37.0; d = 256 40.6; d = 192 40.4; d = 40 43.1.
//
// What mattered: kinds of kernels (code that merely might run costs registers and instruction cache: plain d = 128 41.0 -> 45.2, d = 64
// 45.6 -> 47.2 with the dense tile); rows stored straight from the registers, scaled first, since vector stores of the sums themselves
// force them into aligned quadruples (operands then share a register bank: 500 of 1024 multiplications); unsigned lane arithmetic; two
// comparisons a score for the mask. Of plain kernels one address for K and one for V that move on, and per-thread offsets kept in a
// register each (d = 32, (4, 32768) 43.2 -> 45.3); a loop over depth that runs at least once, else 64 scores are copied; one load, not two
// under opposite conditions (with them ptxas has scoreboards for single exponentials and fragments no more, and issues those in clusters:
// -> 46.1; d = 256 36.7 -> 38.3; d = 64 47.4 -> 47.9); all of Q's loads on their way at once, without a condition each, O stored without
// branches, the first references without branches ((13600, 128) 31.8 -> 34.9; without the first of these three 29.8), two threads side by
// side on a row of Q (best of 15 runs 36.0 -> 37.1; without Q's loads 37.0, without O's stores, too, 39.8). Modified scores, 0.65 to 0.85
// of the plain rate: whole 8 x 8 tiles (d = 64, softcap 35.9 -> 39.1), K and V as whole quads (32.2 -> 35.9), a reference that moves only
// by 16, a tanh without branches (28.3 -> 32.2). One modifier alone, d = 64: kernels of their own, whose products start from it
// (attention/simt/start.h); share of the plain rate bias 0.72 -> 0.87, mask 0.83 -> 0.94, ALiBi 0.79 -> 0.94, softcap 0.84 -> 0.94. They
// take what a score costs into the copy of the reference that starts it, send for memory while V's product leaves the scores' registers
// free, work a block's place out once instead of four times a tile (some 500 instructions of 11000), and ALiBi's references begin where the
// key nearest to the diagonal will put them, instead of moving with each tile. A bias in the start of the first tile, before there is a
// reference, doubled errors. What lost: 8 x 8 scores at d = 128 (44.1 at two blocks); 8 rows a lane at d = 256 (32.4, it spills); one
// branch around the products instead of a second set of barriers for groups that see nothing (spills); 64-thread blocks at five a unit (168
// registers are left to each thread all the same); the dense tile with masks (38.9 causal against 41.8); addresses that move on in masked
// kernels of d = 128 (causal 42.4 -> 40.4: 168 registers, whose banks collide); causal d = 64 with blocks of 64 rows (42.9 -> 40.1); blocks
// of the first wave started apart by a delay, or causal ones of unequal length side by side, so that those of a unit do not wait together
// (nothing; -1.5 %); the next block's Q, K and V sent for to the L2 cache ((13600, 128) 35.8 -> 34.0); loops half as long, which the
// instruction cache would hold (8 x 8: products with V 46.3 -> 44.6, scores 46.9 -> 46.0; dense 47.4 -> 44.8 and 47.0); barriers of the
// group between key steps to keep exponentials apart; a second loop, as plain kernels have it, for the tiles of masked kernels that all
// rows see all of (long rows gain, d = 32 5 %, d = 80 4 %, d = 256 3 %; at S = 2k two loops miss the instruction cache, d = 64 -11 to -13
// %, and at d = 128 the registers' banks collide, -1 to -5 %); causal heads taken in groups, for the L2 cache (100 of 500 heads: nothing,
// fewer: worse); at d = 256 chunks sent for two ahead (+0.8 %, d = 192 -5 %), three blocks a unit (-0.4 to -2 %), strips two and four at
// once (-1.3 %, 0); a bias loaded in two halves (-2 %). At d = 256 the way to shared memory binds: it is busy 71 % of the time on average,
// a third of that without shared memory, K's pieces of 32 bytes; pieces of 64 bytes, for which strips lie in the chunks of V, leave 65 %.
// What binds: at d = 32 a tile is too short for what lies between the two products (some 200 of 4900 instructions) and, at 128 keys, a
// block's two ends.
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
