// SPDX-License-Identifier: Apache-2.0
// The configurations of the backward tile kernel (attention_backward/simt/tile.cuh), and what is known of its speed.
//
// A block keeps a block of keys: their dk and dv stay in registers while tiles of query rows, of all heads of the group, pass by. For each
// tile it computes dP = dO V^T and S = Q K^T, from those P = exp(S - lse) and dS = P (dP - delta), then adds P^T dO to dV and dS^T Q to dK,
// and leaves dS K, its part of dQ, in memory: another kernel adds the parts up, in the order of the keys. So there are five products and no
// atomics, for 4 bytes of parts written and read for each row, column and block of keys. P and dS pass through shared memory, dS a second
// time key by key; all operands stream through two panels that alternate.
//
// Shared bytes: 4 * (pairs of a tile, the larger of rows x (keys + 4) and keys x (rows + 4), + 2 panels + 2 numbers a row) + 80 of what the
// block is about: Backward64 4 * (8704 + 2 * 1600 + 256) + 80 = 48720. Registers (sm_61): tests/budget/budget_sm_61.csv; 8 warps a unit
// and no spills. Arithmetic intensity: a tile of rows x keys does 10 FLOP a pair and column and moves, from L2 mostly, (3 rows + 3 keys)
// floats a column, since no operand stays in shared memory.
//
// Measured (H200, compute_61 PTX, B = 8, H = 16, S = 2048; d = 256: 2, 8, 4096; ms a call, not causal): docs/performance.md, and, in one
// run: d = 32 5.5 (128 rows x 64 keys 5.9); d = 64 10.0 (64 x 64, three blocks a unit 10.6); d = 96 15.4 (fragments not ahead 16.0, 96 rows
// in 192 threads 17.1); d = 128 20.1 (chunks of 8 and fragments ahead 21.5; 128 x 32, three blocks a unit 23.8); d = 256 23.9 (fragments
// ahead 24.3, 128 x 32 33.7, 64 x 32 in blocks of 128 threads 31.6). What the block is about in shared memory instead of computed anew
// wherever it is needed: 10.4 to 9.9 at d = 64, 21.6 to 19.9 at d = 128. No difference: the order of multiply-adds at d = 64.
// For plain scores of 64, 128 and 256 columns attention_backward/simt/products.cuh is faster, where there are pairs enough.
// What lost or won little (same shape; this kernel 9.8 at d = 64 and 19.9 at d = 128): blocks in two halves, one for S and dV, the other
// for dP and dK, 64 x 64 pairs, nearly all products 8 x 8 a lane: d = 64 with three blocks a unit 9.9, with two 10.9; d = 128 in 256
// threads of 128 registers 23.7. S and P before dP, and at d = 64 64 x 128 pairs with all sums 8 x 8 a lane: 9.5 and 19.7, but B = 2, H = 8
// causal 1.0 for 0.7. Issue slots are used no better by any of them, nor by three warps a scheduler: loops of multiply-adds are 90 % of the
// instructions and two thirds of a warp's time, what stands between them (stores that transpose, exponentials, branches, barriers) is the
// rest. What binds (ncu, d = 64): 72 % of the issue slots are used, 83 % of those for multiply-adds; warps wait for shared memory 14 %, for
// an instruction before them 8 % and for dispatch 7 % of their time. d = 128: 70, 84, 11, 8 and 8 %.
// A 16-byte load of a fragment takes shared memory two cycles: in the loops of dV and dK at d = 64, of S and dP at 128 (8 x 4 a lane, six
// loads for 64 multiply-adds) it is busy 80 and 100 % of the time that multiply-adds alone would take, in those of 8 x 8 half.
// Together the following lost (9.9 to 10.4 ms at d = 64, 20.0 to 20.7 at 128, 24.1 to 25.7 at 256): one load for all chunks, at addresses
// set beforehand, instead of two under opposite conditions; a row's numbers on their way during the first product; two threads side by
// side on a row of a chunk of 16; multiply-adds by columns at d = 128, which have three operands in a bank 39 times instead of 228.
#pragma once

#include <type_traits>

#include "attention_backward/simt/shape.h"

namespace attile::gpu::simt {

struct BackwardBase {
    static constexpr int kChunkDepth = 8;
    static constexpr bool kAhead = !kSparesRegisters;      // Fragments are read a step ahead.
    static constexpr bool kKeepsRows = !kSparesRegisters;  // Where an operand's rows are is found once a product, not once a chunk.
};

// Head dims up to 32: 64 rows x 128 keys.
struct Backward32 : BackwardBase {
    using Scores = BackwardProduct<64, 128, 8, 8, 4>;
    using Keys = BackwardProduct<128, 32, 8, 4, 4>;
    using Queries = BackwardProduct<64, 32, 4, 4, 4>;
    static constexpr int kChunkRows = 16, kBlocksPerUnit = 2;
};
// Half the keys: leaves registers for what modifies scores, or to compilers that need more of them.
struct Backward32Half : BackwardBase {
    using Scores = BackwardProduct<64, 64, 8, 4, 4>;
    using Keys = BackwardProduct<64, 32, 4, 4, 4>;
    using Queries = BackwardProduct<64, 32, 4, 4, 4>;
    static constexpr int kChunkRows = 16, kBlocksPerUnit = 2;
};

// Up to 64: 128 rows x 64 keys.
struct Backward64 : BackwardBase {
    using Scores = BackwardProduct<128, 64, 8, 8, 4>;
    using Keys = BackwardProduct<64, 64, 8, 4, 4>;
    using Queries = BackwardProduct<128, 64, 8, 8, 4>;
    static constexpr int kChunkRows = 16, kBlocksPerUnit = 2;
};
// Half the rows, likewise.
struct Backward64Half : BackwardBase {
    using Scores = BackwardProduct<64, 64, 8, 4, 4>;
    using Keys = BackwardProduct<64, 64, 8, 4, 4>;
    using Queries = BackwardProduct<64, 64, 8, 4, 4>;
    static constexpr int kChunkRows = 16, kBlocksPerUnit = 2;
};

// Up to 96: 64 rows x 64 keys.
struct Backward96 : BackwardBase {
    using Scores = BackwardProduct<64, 64, 8, 4, 4>;
    using Keys = BackwardProduct<64, 96, 4, 12, 4>;
    using Queries = BackwardProduct<64, 96, 4, 12, 4>;
    static constexpr int kChunkDepth = 16, kChunkRows = 16, kBlocksPerUnit = 2;
};
// 192 threads and 96 rows, for compilers that need more registers.
struct Backward96Wide : BackwardBase {
    using Scores = BackwardProduct<96, 64, 8, 4, 4>;
    using Keys = BackwardProduct<64, 96, 8, 4, 4>;
    using Queries = BackwardProduct<96, 96, 12, 4, 4>;
    static constexpr int kChunkRows = 16, kBlocksPerUnit = 2;
    static constexpr bool kAhead = false, kKeepsRows = false;
};

// Up to 128: 64 rows x 64 keys.
struct Backward128 : BackwardBase {
    using Scores = BackwardProduct<64, 64, 8, 4, 4>;
    using Keys = BackwardProduct<64, 128, 8, 8, 4>;
    using Queries = BackwardProduct<64, 128, 8, 8, 4>;
    static constexpr int kChunkDepth = 16, kChunkRows = 16, kBlocksPerUnit = 2;
    static constexpr bool kAhead = false, kKeepsRows = false;
};
// Half the keys and half the sums, for compilers that need more registers.
struct Backward128Half : BackwardBase {
    using Scores = BackwardProduct<64, 32, 4, 4, 4>;
    using Keys = BackwardProduct<32, 128, 8, 4, 4>;
    using Queries = BackwardProduct<64, 128, 8, 8, 4>;
    static constexpr int kChunkRows = 8, kBlocksPerUnit = 2;
};

// Up to 256: 128 rows x 64 keys in blocks of 256 threads, dq in four passes of 64 columns.
struct Backward256 : BackwardBase {
    using Scores = BackwardProduct<128, 64, 8, 4, 4>;
    using Keys = BackwardProduct<64, 256, 8, 8, 4>;
    using Queries = BackwardProduct<128, 64, 8, 4, 4>;
    static constexpr int kChunkRows = 4, kBlocksPerUnit = 1;
    static constexpr bool kAhead = false, kKeepsRows = false;
};

// Half the keys, for compilers that need more registers.
struct Backward256Half : BackwardBase {
    using Scores = BackwardProduct<128, 32, 4, 4, 4>;
    using Keys = BackwardProduct<32, 256, 4, 8, 4>;
    using Queries = BackwardProduct<128, 64, 8, 4, 4>;
    static constexpr int kChunkRows = 4, kBlocksPerUnit = 1;
    static constexpr bool kAhead = false, kKeepsRows = false;
};

// What each width is made with, plain and modified.
using Backward256Plain = std::conditional_t<kSparesRegisters, Backward256Half, Backward256>;
using Backward32Plain = std::conditional_t<kSparesRegisters, Backward32Half, Backward32>;
using Backward96Plain = std::conditional_t<kSparesRegisters, Backward96Wide, Backward96>;
using Backward64Plain = std::conditional_t<kSparesRegisters, Backward64Half, Backward64>;
using Backward128Plain = std::conditional_t<kSparesRegisters, Backward128Half, Backward128>;
struct Backward96Modified : Backward96Plain {
    static constexpr bool kAhead = false, kKeepsRows = false;
};
struct Backward128Modified : Backward128Plain {
    static constexpr bool kAhead = false;
};

}  // namespace attile::gpu::simt
