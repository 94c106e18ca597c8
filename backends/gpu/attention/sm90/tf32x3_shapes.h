// SPDX-License-Identifier: Apache-2.0
// The tiles of the sm_90a attention kernel for float32 by tf32x3. One block a multiprocessor, by shared memory and registers: two
// warpgroups multiply, two split.
//
//   shape          rows x keys  shared memory: note and barriers + Q + pieces of K and V   registers of a multiplying thread; spilled, bytes
//   Tf32x3Cols64   128 x 64     2 + 32 + 12 x 16 = 226 KB                                  208; none
//   Tf32x3Cols128  128 x 64     2 + 64 + 10 x 16 = 226 KB                                  208; 12, of addresses
//
// Rates: docs/performance.md; to measure again, tools/compare_peers.py --groups split.
//
// Measured on an H200, B = 2, H = 16, S = 8192, no mask, TFLOP/s at d = 128 and 64:
//   86, 98    one warpgroup splits, three pieces ahead in registers
//   101, 97   two, one piece ahead each: what splits K and V had been waited for
// What binds d = 128 now (ncu, H = 16): tensor cores are busy 65 % of the time, shared memory 77 %; a multiplying warp waits for its
// products 40 % of its time and spends the rest on splitting Q and P, adding sums and exponentials, some 1350 instructions a tile. Without
// loads of K and V, 124 and 113 (on zeros, which take less power). What lost: 16 columns of Q at a time and products issued before the sums
// of those before are added (97 and 102; spills at d = 128, and ptxas serializes products where a loop over them ends early); warpgroups
// that start apart (1 % slower).
#pragma once

#include "attention/mma/task.h"

namespace attile::gpu::sm90 {

using namespace mma;

struct AttentionTf32x3Shape {
    int depth;    // Most columns of Q and K.
    int columns;  // Most columns of V.
    int pieces;   // Places for them in shared memory.

    static constexpr int keys = 64, warpgroups = 2, bytes = 4;
    static constexpr int servers = 2, producer_registers = 48, consumer_registers = 208;  // Warpgroups that split, and of all.
    // A piece of K is 32 columns of a tile, one of V 32 keys of 64 columns: 64 rows of 128 bytes, high parts, then low parts.
    static constexpr int kPieceDepth = 32, kPieceRows = 64, kPieceBytes = 2 * kPieceRows * 128;
    static constexpr int kNoteBytes = 1024;  // The note and the barriers.

    constexpr int rows() const { return 64 * warpgroups; }
    constexpr int threads() const { return 128 * (warpgroups + servers); }
    constexpr int q_bytes() const { return rows() * depth * bytes; }
    // And what aligning the pieces to 1024 bytes may take.
    constexpr int shared_bytes() const { return 1024 + kNoteBytes + q_bytes() + pieces * kPieceBytes; }
};

struct AttentionTf32x3Cols64 {
    static constexpr AttentionTf32x3Shape kShape = {64, 64, 12};
};
struct AttentionTf32x3Cols128 {
    static constexpr AttentionTf32x3Shape kShape = {128, 128, 10};
};

}  // namespace attile::gpu::sm90
