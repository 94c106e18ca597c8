// SPDX-License-Identifier: Apache-2.0
// The configurations of the backward tile kernel (attention_backward_tile.cuh), and what is known of its speed.
//
// A block keeps a block of keys: their dk and dv stay in registers while tiles of query rows, of all heads of the group, pass by. For each
// tile it computes dP = dO V^T and S = Q K^T, from those P = exp(S - lse) and dS = P (dP - delta), then adds P^T dO to dV and dS^T Q to dK,
// and leaves dS K, its part of dQ, in memory: another kernel adds the parts up, in the order of the keys. So there are five products and no
// atomics, for 4 bytes of parts written and read for each row, column and block of keys. P and dS pass through shared memory, dS a second
// time key by key; all operands stream through two panels that alternate.
//
// Shared bytes: 4 * (pairs of a tile, the larger of rows x (keys + 4) and keys x (rows + 4), + 2 panels + 2 numbers a row): Backward64
// 4 * (8704 + 2 * 1600 + 256) = 48640, Backward128 4 * (4352 + 2 * 2176 + 128) = 35328, Backward256 17920. Registers (sm_61): 222, 251 and
// 242, modified 167, 252 and 241; two blocks of 128 threads a unit; no spills. Arithmetic intensity: a tile of rows x keys does 10 FLOP a
// pair and column and moves, from L2 mostly, (3 rows + 3 keys) floats a column, since no operand stays in shared memory.
//
// Best measured of the kernels alone (H200, compute_61 PTX, B = 8, H = 16, S = 2048, TFLOP/s by five products): d = 64 37.5 full and 35.4
// causal, d = 128 35.1 and 32.8; d = 256 (2, 8, 4096) 24.1 with a step ahead, which spilled on sm_61. Calls: tools/compare_peers.py
// --groups backward. What binds: a third of the issue slots goes to dispatch stalls (most at d = 128) and to waiting for shared memory.
//
// What mattered at d = 64: 128 rows instead of 64 (37.5, 35.4 with three blocks a unit); fragments a step ahead (36.6 without); rows found
// once a product (36.0 without). At d = 128: chunks of 16 (35.1, 32.1 of 8), for which a step ahead leaves no registers. What lost: 64 rows
// x 128 keys at d = 64 (35.0, it spills); 128 rows in blocks of 256 threads (29.8) and 32 keys (29.7) at d = 128.
#pragma once

#include <type_traits>

#include "tile/backward_shape.h"

namespace attile::simt {

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

// Up to 256: 64 rows x 32 keys, dq in two passes of 128 columns.
struct Backward256 : BackwardBase {
    using Scores = BackwardProduct<64, 32, 4, 4, 4>;
    using Keys = BackwardProduct<32, 256, 8, 8, 4>;
    using Queries = BackwardProduct<64, 128, 8, 8, 4>;
    static constexpr int kChunkRows = 4, kBlocksPerUnit = 2;
    static constexpr bool kAhead = false, kKeepsRows = false;
};

// Twice the threads and rows, and half the sums, for compilers that need more registers: dq in four passes of 64.
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

}  // namespace attile::simt
