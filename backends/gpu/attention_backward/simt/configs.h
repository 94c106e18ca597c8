// SPDX-License-Identifier: Apache-2.0
// The configurations of the backward tile kernel (attention_backward/simt/tile.cuh). A block keeps a block of keys: their dK and dV stay in
// registers while tiles of query rows, of all heads of the group, pass by. For each tile it computes dP = dO V^T and S = Q K^T, from those
// P = exp(S - lse) and dS = P (dP - delta), then adds P^T dO to dV and dS^T Q to dK, and leaves dS K, its part of dQ, in memory; another
// kernel adds the parts in the order of the keys, so there are no atomics. P and dS pass through shared memory, dS a second time key by
// key; all operands stream through two panels that alternate.
//
// Shared bytes: 4 * (pairs of a tile, the larger of rows x (keys + 4) and keys x (rows + 4), + 2 panels + 2 numbers a row) + 80 of what the
// block is about: Backward64 4 * (8704 + 2 * 1600 + 256) + 80 = 48720. Registers (sm_61): tests/budget/budget_sm_61.csv; 8 warps a
// multiprocessor and no spills. Bound: arithmetic, then the loads of fragments from shared memory; a tile of rows x keys does 10 FLOP a
// pair and column and moves, from L2 mostly, (3 rows + 3 keys) floats a column. Record: docs/kernels/attention-backward-simt.md.
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
