// SPDX-License-Identifier: Apache-2.0
// What the sm_90a kernels of attention's gradients are told, by value, and the tiles they exist in.
#pragma once

#include <cstdint>

#include "attention_backward/mma/task.h"
#include "tensor_map.h"

namespace attile::gpu::sm90 {

using namespace mma;

inline constexpr int kBackwardPanel = 64;  // Columns of an operand in shared memory: 128 bytes, the width of the swizzle.
inline constexpr int kBackwardSharedLimit = 227 * 1024;

struct BackwardArguments : BackwardTask {
    TensorMap map_q, map_dout, map_k, map_v;  // Innermost axis first: column, row, head, batch entry.
    // 1 where a coordinate along the axis moves, 0 where the operand is broadcast along it or has one entry.
    int32_t q_head, q_batch, dout_head, dout_batch, k_head, k_batch, v_head, v_batch;
    int32_t tiles;            // Blocks of keys times pairs; some may be empty.
    int32_t gang;             // Blocks of the same pair that begin with different rows: BackwardWalk. 1: all begin with the last.
    int32_t apart;            // At most so many steps apart.
    int32_t chains;           // Sums of dQ of a tile of rows, to which blocks of keys add round-robin.
    int32_t places;           // Query heads of the launch times row tiles.
    float *sums;              // dQ: [chain][query head of the launch][row tile][warpgroup][register / 4][thread][4]
    uint32_t *dq_semaphores;  // [chain][query head of the launch][row tile]: how many blocks of keys have added their part. Zero at launch.
    uint32_t *counter;        // The next tile, zero at launch.
};

// A tile's shape; the kernel's shared memory follows from it.
struct BackwardShape {
    int depth;                           // Most columns, of whole panels.
    int keys;                            // Of a block.
    int rows;                            // Of a tile that streams.
    bool late_sums;                      // dQ is issued after dS, not along with it, for want of registers.
    bool bias, allowed, alibi, softcap;  // What scores may pass through besides a mask.
    bool sparse;                         // There is a mask of blocks, and nothing that scores pass through.
    int producer_registers, consumer_registers;

    static constexpr int warpgroups() { return 2; }  // Consumers, of 64 keys each; one producer warpgroup besides.
    static constexpr int stages() { return 2; }      // Of Q, of dO, of dS and of dQ.
    // Places for what the producer says of a step under a mask of blocks. A place is free again when the step's sums have been added, which
    // is before the producer is so many steps further.
    static constexpr int told_steps() { return 8; }
    static constexpr int threads() { return 128 * (warpgroups() + 1); }
    static constexpr int finish_threads() { return 128 * warpgroups(); }
    // Of a tile's dQ each warpgroup makes half of the rows, or of the columns.
    constexpr bool halves_rows() const { return rows == 128; }
    constexpr int part_columns() const { return halves_rows() ? depth : depth / 2; }
    constexpr int options() const { return bias + allowed + alibi + softcap; }
    constexpr bool modifies() const { return options() > 0; }
    constexpr int panels() const { return depth / kBackwardPanel; }
    constexpr int keys_bytes() const { return keys * depth * 2; }  // Of K, of V.
    constexpr int rows_bytes() const { return rows * depth * 2; }  // Of Q, of dO.
    constexpr int scores_bytes() const { return rows * keys * 2; }
    constexpr int sums_bytes() const { return rows * depth * 4; }
    constexpr int wide_scores_bytes() const { return rows * keys * 4; }
    constexpr int number_bytes() const { return rows * 8; }
    constexpr int told_bytes() const { return sparse ? 16 * told_steps() : 0; }
    // K, V, then stages of Q, dO, dS, dQ, lse and delta; mbarriers and work tiles; what modifies scores, or steps.
    constexpr int shared_bytes() const {
        return 2 * keys_bytes() + stages() * (2 * rows_bytes() + scores_bytes() + sums_bytes() + number_bytes()) + 256 +
               (modifies() ? kModifierRecord * 4 * warpgroups() : 0) + told_bytes();
    }
    // K, V, then stages of Q, dO, P, lse and delta; mbarriers and work tiles; steps.
    constexpr int wide_shared_bytes() const {
        return 2 * keys_bytes() + stages() * (2 * rows_bytes() + wide_scores_bytes() + number_bytes()) + 256 + told_bytes();
    }
};

}  // namespace attile::gpu::sm90
