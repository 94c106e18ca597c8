// SPDX-License-Identifier: Apache-2.0
// The shape of a tile of the sm_90a attention kernel for float32 by tf32x3. Which there are, with their budget:
// attention/sm90/instances.cmake.
#pragma once

#include "attention/mma/task.h"

namespace attile::gpu::sm90 {

using namespace mma;

struct AttentionTf32x3Shape {
    int depth;    // Most columns of Q and K.
    int columns;  // Most columns of V.
    int pieces;   // Stages for pieces in shared memory.

    static constexpr int keys = 64, warpgroups = 2, bytes = 4;
    static constexpr int producers = 2, producer_registers = 48,
                         consumer_registers = 208;  // Producer warpgroups, and registers of a thread.
    // A piece of K is 32 columns of a tile, one of V 32 keys of 64 columns: 64 rows of 128 bytes, high parts, then low parts.
    static constexpr int kPieceDepth = 32, kPieceRows = 64, kPieceBytes = 2 * kPieceRows * 128;
    static constexpr int kWorkBytes = 1024;  // The work tile and the mbarriers.

    constexpr int rows() const { return 64 * warpgroups; }
    constexpr int threads() const { return 128 * (warpgroups + producers); }
    constexpr int q_bytes() const { return rows() * depth * bytes; }
    // And what aligning the pieces to 1024 bytes may take.
    constexpr int shared_bytes() const { return 1024 + kWorkBytes + q_bytes() + pieces * kPieceBytes; }
};

}  // namespace attile::gpu::sm90
